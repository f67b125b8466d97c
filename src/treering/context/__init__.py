"""What the model sees next: messages from events, legal and within a budget; pure."""
