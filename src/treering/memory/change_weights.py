"""How much each sign counts when a statement may change an earlier one.

Written by ``scripts/fit_changes.py``; change the pairs that it is fitted on, not this.
"""

from __future__ import annotations

from typing import Final

WEIGHTS: Final = {
    "now": 0.310,
    "turned": 0.725,
    "denied": -0.656,
    "past": 0.910,
    "done": 0.448,
    "clauses": 0.499,
    "gained": -1.226,
    "ended": -0.530,
    "changed": 0.125,
    "set": -1.458,
    "begun": -0.759,
    "cosine": 1.601,
    "same subject": 1.062,
    "both of the user": 2.495,
    "one of the user": 0.478,
    "subject said": 1.530,
    "subject is its object": 0.768,
    "subjects differ in part": -1.918,
    "name of subject gone": -0.474,
    "name of subject new": -1.215,
    "another person": -0.409,
    "named person": -2.131,
    "share of old": 1.568,
    "share of new": 4.543,
    "words shared": 2.611,
    "all of rest said": 0.796,
    "verb of many": -0.832,
    "number added": -1.522,
    "number missing": -0.816,
    "time missing": -0.797,
    "name missing": -1.338,
    "name differs": 0.610,
    "name shared": 1.617,
    "nothing shared": 0.566,
    "only the subject shared": -0.733,
    "nearest": -0.512,
    "exchanged": 1.576,
    "predicates near": -0.272,
    "of the subject, near": 1.138,
    "of a person, near": 2.695,
    "only the subject, exchanged": 2.114,
    "nothing shared, near": -0.147,
    "well exchanged": 0.598,
    "aim": 0.098,
    "aim reached": 1.216,
    "short": 0.113,
    "constant": -6.197,
}
