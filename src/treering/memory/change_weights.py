"""How much each sign counts when a statement may change an earlier one.

Written by ``scripts/fit_changes.py``; change the pairs that it is fitted on, not this.
"""

from __future__ import annotations

from typing import Final

WEIGHTS: Final = {
    "now": 0.441,
    "turned": 0.791,
    "denied": -0.626,
    "past": 0.882,
    "done": 0.435,
    "clauses": 0.405,
    "ended": -0.397,
    "changed": 0.272,
    "set": -1.287,
    "begun": -1.048,
    "cosine": 1.537,
    "same subject": 1.030,
    "both of the user": 2.416,
    "one of the user": 0.440,
    "subject said": 1.543,
    "subject is its object": 0.793,
    "subjects differ in part": -1.898,
    "name of subject gone": -0.479,
    "name of subject new": -1.139,
    "another person": -0.359,
    "named person": -2.211,
    "share of old": 1.564,
    "share of new": 4.565,
    "words shared": 2.552,
    "all of rest said": 0.805,
    "verb of many": -0.775,
    "number added": -1.508,
    "number missing": -0.841,
    "time missing": -0.798,
    "name missing": -1.376,
    "name differs": 0.486,
    "name shared": 1.644,
    "nothing shared": 0.581,
    "only the subject shared": -0.748,
    "nearest": -0.558,
    "exchanged": 1.508,
    "predicates near": -0.310,
    "of the subject, near": 1.274,
    "of a person, near": 2.742,
    "only the subject, exchanged": 2.140,
    "nothing shared, near": -0.124,
    "well exchanged": 0.621,
    "aim": 0.080,
    "aim reached": 1.227,
    "short": 0.111,
    "constant": -6.178,
}
