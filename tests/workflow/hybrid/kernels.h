double relax(const double *values, long n);
double search(const double *values, long n);
