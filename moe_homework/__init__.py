"""Homework of the chapter: instant checks for a student, a safe gradebook for a lecturer.

`from moe_homework.hw1 import check` in a notebook; `python -m moe_homework hw1 SUBMISSIONS --out DIR` in a terminal.
"""
