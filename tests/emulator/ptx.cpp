// The larger instructions of ptx.h.
#include "simt.h"
#include <fenv.h>

namespace ptx {
template <class T> static T result(char op, volatile T a, volatile T b) {
    switch (op) {
        case '+': return a + b;
        case '*': return a * b;
        case '/': return a / b;
        case 'r': return sizeof(T) == 4 ? (T)sqrtf((float)a) : (T)sqrt(a);
    }
    if ((op == 'l' || op == 'g') && (a != a || b != b)) return (T)NAN;
    return op == '<' || op == 'l' ? simt::least<T>(a, b) : simt::most<T>(a, b);
}
template <class T> static T by_mode(char op, char mode, T a, T b) {
    const int before = fegetround();
    fesetround(mode == 'z' ? FE_TOWARDZERO : mode == 'm' ? FE_DOWNWARD : mode == 'p' ? FE_UPWARD : FE_TONEAREST);
    const volatile T r = result<T>(op, a, b);
    fesetround(before);
    return r;
}
float rounded(char op, char mode, float a, float b) { return by_mode(op, mode, a, b); }
double rounded(char op, char mode, double a, double b) { return by_mode(op, mode, a, b); }
}  // namespace ptx
