// Formats one conversion of a device printf with the host's printf. `spec` is a specification ("%-8.3lld") whose length
// modifier, if any, is `ll`. Returns the result of snprintf, the length of the complete text.
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
