"""What ``make demo`` shows, in three chapters; ``demo.py`` beside this folder starts it."""
