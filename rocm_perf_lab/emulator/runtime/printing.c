// One conversion of a device's printf, with the host's own printf: `spec` is a whole specification ("%-8.3lld") whose length
// modifier, where it has one, is `ll`. Returns what snprintf returns: the length that the text has or would have.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int rpl_print_integer(char *out, uint64_t size, const char *spec, uint64_t bits) {
  return snprintf(out, size, spec, (long long)bits);
}

int rpl_print_float(char *out, uint64_t size, const char *spec, uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return snprintf(out, size, spec, value);
}

int rpl_print_pointer(char *out, uint64_t size, const char *spec, uint64_t bits) {
  return snprintf(out, size, spec, (void *)bits);
}
