"""The viewer: pages of the server that show people everything recorded."""
