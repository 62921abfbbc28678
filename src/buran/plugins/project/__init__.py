"""What an existing project's Makefile or CMake files tell about building it, and a campaign file made from that."""
