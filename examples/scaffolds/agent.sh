#!/bin/sh
# An agent with a single request: sends request.json to OPENAI_BASE_URL and prints the answer's text, with JSON escapes.
set -e
curl -sSf --max-time 50 "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" \
    -H "Content-Type: application/json" -d @request.json > answer.json
sed 's/.*"message":{.*"content":"\(\([^"\\]\|\\.\)*\)".*/\1/' answer.json
