"""The memory: what is learnt from events, found again, and lost for want of use."""
