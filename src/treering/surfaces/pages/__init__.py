"""Sessions to be read by people: what is on a page, and the page itself."""
