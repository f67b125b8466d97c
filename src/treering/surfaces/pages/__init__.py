"""Sessions for people to read: the content of a page, and the page itself."""
