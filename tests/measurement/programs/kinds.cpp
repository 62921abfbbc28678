// Functions of every kind that has a linker symbol of its own; each is called once.
#include <mpi.h>

#include <cstddef>
#include <new>

#define WORK(x) do { for (int i_ = 0; i_ < 50; ++i_) (x) = (x) * 0.5 + i_; } while (0)

extern "C" {
double c_one(double x) { WORK(x); return x; }
double c_two(double x, int n) { WORK(x); return x + n; }
static double c_static(double x) { WORK(x); return x; }
void fortran_solve(double* x, int n);
}

namespace {
double hidden(double x) { WORK(x); return x; }
namespace deeper { double hidden(double x) { WORK(x); return x; } }
struct Hidden {
  double v;
  Hidden() : v(1) { WORK(v); }
  ~Hidden() { WORK(v); }
  double work(double x) const { WORK(x); return x + v; }
  static double fixed(double x) { WORK(x); return x; }
};
}

namespace lib {
inline namespace v2 { double versioned(double x) { WORK(x); return x; } }
template <class T> T of_type(T x) { double y = static_cast<double>(x); WORK(y); return static_cast<T>(y); }
template <> char of_type<char>(char x) { double y = x; WORK(y); return static_cast<char>(static_cast<int>(y) % 100); }
template <int N> double of_number(double x) { WORK(x); return x + N; }
template <class... Ts> double of_many(Ts... ts) { double x = (0.0 + ... + static_cast<double>(ts)); WORK(x); return x; }
template <template <class> class C, class T> double of_template(const C<T>& c) { double x = c.v; WORK(x); return x; }
template <class T> struct Box {
  T v;
  explicit Box(T x) : v(x) { double y = 1; WORK(y); v += static_cast<T>(y * 1e-9); }
  Box(const Box& other) : v(other.v) { double y = 1; WORK(y); v += static_cast<T>(y * 1e-9); }
  Box& operator=(const Box& other) { double y = 1; WORK(y); v = other.v; return *this; }
  template <class U> U as() const { double y = static_cast<double>(v); WORK(y); return static_cast<U>(y); }
  friend double peek(const Box& box) { double y = static_cast<double>(box.v); WORK(y); return y; }
};
struct Number {
  double v;
  Number operator+(const Number& o) const { double x = v + o.v; WORK(x); return {x}; }
  Number operator-() const { double x = -v; WORK(x); return {x}; }
  Number& operator+=(const Number& o) { v += o.v; WORK(v); return *this; }
  Number operator++(int) { WORK(v); return *this; }
  bool operator<(const Number& o) const { double x = v; WORK(x); return x < o.v; }
  bool operator==(const Number& o) const { double x = v; WORK(x); return x == o.v; }
  double operator()(double x) const { WORK(x); return x; }
  double operator[](int i) const { double x = i; WORK(x); return x; }
  const Number* operator->() const { return this; }
  explicit operator double() const { double x = v; WORK(x); return x; }
  void* operator new(std::size_t size) { double x = 1; WORK(x); return ::operator new(size + (x < 0)); }
  void operator delete(void* p) { double x = 1; WORK(x); if (x > 0) ::operator delete(p); }
};
double operator""_half(long double x) { double y = static_cast<double>(x); WORK(y); return y; }
Number operator*(const Number& a, double b) { double x = a.v * b; WORK(x); return {x}; }
}

struct Base {
  double v = 1;
  Base() { WORK(v); }
  explicit Base(int n) : v(n) { WORK(v); }
  virtual ~Base() { WORK(v); }
  virtual double step(double x) { WORK(x); return x; }
  virtual double pure(double x) = 0;
};
struct Side { double s = 1; virtual double side(double x) { WORK(x); return x + s; } virtual ~Side() { WORK(s); } };
struct Derived : Base, Side {
  explicit Derived(int n) : Base(n) { WORK(v); }
  ~Derived() override { WORK(v); }
  double step(double x) override { WORK(x); return x + v; }
  double pure(double x) override { WORK(x); return x; }
  double side(double x) override { WORK(x); return x + s; }
};
struct Shared : virtual Base { Shared() : Base(2) { WORK(v); } double pure(double x) override { WORK(x); return x; } };

static double of_pointer(double (*f)(double), double x) { WORK(x); return f(x); }
static double of_member(double (Hidden::*f)(double) const, const Hidden& h, double x) { WORK(x); return (h.*f)(x); }
double defaulted(double x = 1, int n = 2) { WORK(x); return x + n; }
double of_array(const double (&a)[3]) { double x = a[0]; WORK(x); return x; }
double of_reference(double&& x) { WORK(x); return x; }
auto deduced(double x) -> decltype(x + 1) { WORK(x); return x; }
constexpr double constant(double x) { WORK(x); return x; }
inline double in_line(double x) { WORK(x); return x; }
double throws(double x) noexcept(false) { WORK(x); if (x < 0) throw x; return x; }

double lambdas(double x) {
  auto plain = [](double y) { WORK(y); return y; };
  auto capturing = [x](double y) { WORK(y); return y + x; };
  auto generic = [](auto y) { double z = static_cast<double>(y); WORK(z); return z; };
  auto outer = [](double y) { auto inner = [](double z) { WORK(z); return z; }; WORK(y); return inner(y); };
  return plain(x) + capturing(x) + generic(1) + generic(1.0) + outer(x);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  using namespace lib;
  double x = argc;
  x += c_one(x) + c_two(x, 1) + c_static(x) + hidden(x) + deeper::hidden(x);
  { Hidden h; x += h.work(x) + Hidden::fixed(x) + of_member(&Hidden::work, h, x); }
  x += versioned(x) + of_type(x) + of_type(1) + of_type('a') + of_number<3>(x) + of_many(1, 2.0, 3.f);
  Box<double> box(x); Box<int> small(3), copy(small); copy = small;
  x += of_template(box) + box.as<float>() + small.as<double>() + peek(box);
  Number a{1}, b{2};
  a += b; a++; x += static_cast<double>(-(a + b)) + a(x) + a[1] + a->v + (a < b) + (a == b) + (a * 2.0).v + 0.5_half;
  delete new Number{1};
  { Base* base = new Derived(2); x += base->step(x) + base->pure(x) + dynamic_cast<Side*>(base)->side(x); delete base; }
  { Shared shared; x += shared.pure(x) + shared.Base::step(x); Side side; x += side.side(x); }
  x += of_pointer(c_one, x) + defaulted() + of_array({x, 1, 2}) + of_reference(x + 1) + deduced(x) + constant(x);
  x += in_line(x) + throws(x) + lambdas(x);
  fortran_solve(&x, 10);
  MPI_Finalize();
  return x > 1e300;
}
