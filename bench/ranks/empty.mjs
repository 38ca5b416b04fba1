// Does nothing: what is left when horovodrun runs it is the launcher.
