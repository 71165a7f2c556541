#!/usr/bin/env python3
"""An agent that thinks and then answers, with two calls to an OpenAI-compatible server. Plain Python, only the standard
library.

It saves its messages to HOME/session.json before every call and continues from an existing file. So it may be stopped
between its calls and restarted on a copy of HOME. Prints 1 if the answer begins with an ASCII character, else 0.
"""
import http.client
import json
import os
import pathlib
import sys
import urllib.parse

TURNS = (("think about {item}", 32), ("answer", 1))  # question, max_tokens


def main():
    url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    session = pathlib.Path(os.environ["HOME"], "session.json")
    messages = json.loads(session.read_text()) if session.exists() else []
    for question, most in TURNS[len(messages) // 2:]:
        messages.append({"role": "user", "content": question.format(item=os.environ["INGOT_TASK_ID"])})
        body = json.dumps({"model": "policy", "messages": messages, "max_tokens": most})
        connection = http.client.HTTPConnection(url.netloc, timeout=60)
        connection.request("POST", url.path + "/chat/completions", body, headers)
        response = connection.getresponse()
        reply = json.loads(response.read())
        if response.status != 200:
            sys.exit(f"the server answered {response.status}: {reply}")
        messages.append({"role": "assistant", "content": reply["choices"][0]["message"]["content"] or ""})
        session.write_text(json.dumps(messages))
    print(int(messages[-1]["content"][:1].isascii() and messages[-1]["content"] != ""))


if __name__ == "__main__":
    main()
