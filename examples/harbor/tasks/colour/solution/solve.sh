#!/bin/bash
echo green > /app/answer.txt
