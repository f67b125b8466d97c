"""Rules about language: what a sentence states, about whom, and what it changes. Pure.

They are what the built-in ``Extractor`` and ``Summariser`` know: tables of words, and the code
that walks them. A model behind the same ports can replace them.
"""
