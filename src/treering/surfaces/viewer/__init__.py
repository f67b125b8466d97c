"""The viewer: pages of the server on everything that was recorded, for people who look."""
