"""What the surfaces share: times, texts, masks, and answers that several of them show."""
