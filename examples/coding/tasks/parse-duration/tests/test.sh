#!/bin/bash
# 1 if all hidden cases pass, otherwise 0.
mkdir -p /logs/verifier
python3 -I -S /tests/hidden.py > /logs/verifier/reward.txt
