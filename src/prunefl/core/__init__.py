"""The mathematics: state, selection, importance, time, reconfiguration. Arrays and numbers only."""
