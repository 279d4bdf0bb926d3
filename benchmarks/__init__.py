"""What the README claims about speed, in a form that anyone can run again."""
