"""Registration: strict reading, freezing, seals and receipts."""
