"""Facts that the language, the engine and agents share. Imports no other package of ours, and nothing heavy."""
