"""`replay`: captures of single dispatches, and their replay."""
