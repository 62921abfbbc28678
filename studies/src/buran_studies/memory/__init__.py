"""What is counted of a program's demands on the memory, beside theory and beside another tool."""
