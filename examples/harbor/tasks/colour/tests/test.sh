#!/bin/bash
# The share of lower-case letters in the answer.
mkdir -p /logs/verifier
python3 /tests/score.py /app/answer.txt > /logs/verifier/reward.txt
