"""Views: pure functions over events. Events in, values out."""
