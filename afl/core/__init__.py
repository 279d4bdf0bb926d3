"""Facts that the language, the engine and agents share. Imports nothing of ours and loads nothing heavy."""
