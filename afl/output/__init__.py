"""What is written about a program besides its compiled form."""
