// Messages of kernels: a format string in words of 64 bits, then its arguments, one word each, strings packed like the format. Integers
// were widened regardless of their sign and floats to double, so the length modifier determines the type.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "modules.h"

enum { TO_STDERR = 1, MOST_SPEC = 64, LONGEST = 1 << 16, WORD_BYTES = 8 };

struct text { char *bytes; size_t count, capacity; };
struct words { const uint64_t *at, *end; };

static void add(struct text *text, const char *bytes, size_t count) {
  if (!text->bytes || count >= text->capacity - text->count) {
    size_t capacity = 2 * (text->count + count) + MOST_SPEC;
    char *bigger = realloc(text->bytes, capacity);
    if (!bigger) return;
    text->bytes = bigger;
    text->capacity = capacity;
  }
  memcpy(text->bytes + text->count, bytes, count);
  text->count += count;
}

static uint64_t word(struct words *words) { return words->at < words->end ? *words->at++ : 0; }

// The string in the next words, without a copy; `length` without its end.
static const char *string(struct words *words, size_t *length) {
  const char *begin = (const char *)words->at;
  *length = 0;
  while (words->at < words->end) {
    size_t part = strnlen((const char *)words->at++, WORD_BYTES);
    *length += part;
    if (part < WORD_BYTES) break;
  }
  return begin;
}

struct conversion {
  char spec[MOST_SPEC];           // "%-10.3"
  size_t length;
  int precision;                  // -1: none
  int bits;                       // of integers
  char kind;
};

static void append(struct conversion *conversion, const char *text) {
  size_t bytes = strlen(text);
  if (conversion->length + bytes + 4 > MOST_SPEC) return;
  memcpy(conversion->spec + conversion->length, text, bytes + 1);
  conversion->length += bytes;
}

static int limited(int value) { return value > LONGEST ? LONGEST : value < -LONGEST ? -LONGEST : value; }

// A number in the format, or of an argument for `*`. Returns whether there was one.
static int amount(const char **at, struct words *words, int *value) {
  if (**at == '*') {
    ++*at;
    *value = limited((int)(int32_t)word(words));
    return 1;
  }
  char *end;
  long number = strtol(*at, &end, 10);
  int found = end != *at;
  *at = end;
  *value = limited(number > LONGEST ? LONGEST : (int)number);
  return found;
}

static void read_flags(const char **at, struct conversion *conversion) {
  for (char flag[2] = {0}; **at && strchr("-+ #0", **at); ++*at) {
    flag[0] = **at;
    if (!strchr(conversion->spec + 1, flag[0])) append(conversion, flag);
  }
}

static void read_size(const char **at, struct words *words, struct conversion *conversion) {
  char number[MOST_SPEC];
  int width;
  if ((**at == '*' || (**at >= '1' && **at <= '9')) && amount(at, words, &width)) {
    snprintf(number, sizeof number, "%d", width);  // a negative one: a minus and the width
    append(conversion, number);
  }
  conversion->precision = -1;
  if (**at != '.') return;
  ++*at;
  int precision = 0;
  if (**at == '*' || (**at >= '0' && **at <= '9')) amount(at, words, &precision);
  if (precision < 0) return;
  conversion->precision = precision;
  snprintf(number, sizeof number, ".%d", precision);
  append(conversion, number);
}

static void read_length(const char **at, struct conversion *conversion) {
  conversion->bits = 32;
  for (; **at && strchr("hlqjztL", **at); ++*at) conversion->bits = **at == 'h' ? conversion->bits / 2 : 64;
}

// Parses what follows a percent sign. Returns whether it is a conversion.
static int parse(const char **at, struct words *words, struct conversion *conversion) {
  *conversion = (struct conversion){.spec = "%", .length = 1};
  read_flags(at, conversion);
  read_size(at, words, conversion);
  read_length(at, conversion);
  conversion->kind = **at;
  if (!conversion->kind || !strchr("diouxXcsfFeEgGaApn", conversion->kind)) return 0;
  ++*at;
  return 1;
}

static void print_spec(struct text *text, struct conversion *conversion, const char *kind, uint64_t value, double number) {
  char stack[MOST_SPEC * 8];
  append(conversion, kind);
  int is_float = strchr("fFeEgGaA", conversion->kind) != NULL;
  int need = is_float ? snprintf(stack, sizeof stack, conversion->spec, number) : snprintf(stack, sizeof stack, conversion->spec, value);
  if (need < 0) return;
  if ((size_t)need < sizeof stack) {
    add(text, stack, (size_t)need);
    return;
  }
  char *bigger = malloc((size_t)need + 1);
  if (!bigger) return;
  if (is_float) snprintf(bigger, (size_t)need + 1, conversion->spec, number);
  else snprintf(bigger, (size_t)need + 1, conversion->spec, value);
  add(text, bigger, (size_t)need);
  free(bigger);
}

static void print_string(struct text *text, struct conversion *conversion, struct words *words) {
  size_t length;
  const char *begin = string(words, &length);
  char *copy = strndup(begin, length);
  if (!copy) return;
  print_spec(text, conversion, "s", (uint64_t)copy, 0);
  free(copy);
}

static void convert(struct text *text, struct conversion *conversion, struct words *words) {
  char kind[4] = {conversion->kind, 0, 0, 0}, integer[4] = {'l', 'l', conversion->kind, 0};
  if (conversion->kind == 's') {
    print_string(text, conversion, words);
    return;
  }
  uint64_t value = word(words);
  if (conversion->kind == 'n') return;
  if (conversion->kind == 'c' || conversion->kind == 'p') {
    print_spec(text, conversion, kind, value, 0);
  } else if (strchr("fFeEgGaA", conversion->kind)) {
    double number;
    memcpy(&number, &value, sizeof number);
    print_spec(text, conversion, kind, 0, number);
  } else {
    int unused = 64 - conversion->bits, is_signed = conversion->kind == 'd' || conversion->kind == 'i';
    uint64_t narrow = is_signed ? (uint64_t)((int64_t)(value << unused) >> unused) : value << unused >> unused;
    print_spec(text, conversion, integer, narrow, 0);
  }
}

static void format(struct text *text, const char *at, struct words *words) {
  while (*at) {
    size_t plain = strcspn(at, "%");
    add(text, at, plain);
    at += plain;
    if (!*at) return;
    if (at[1] == '%') {
      add(text, "%", 1);
      at += 2;
      continue;
    }
    const char *begin = at++;
    struct conversion conversion;
    if (!parse(&at, words, &conversion)) {
      add(text, begin, (size_t)(at - begin));
    } else if (words->at >= words->end) {
      return;                     // as on the GPU, a message ends at the first missing argument
    } else {
      convert(text, &conversion, words);
    }
  }
}

int hip_print_message(const uint64_t *words, uint32_t count) {
  if (!count) return 0;
  struct words rest = {words + 1, words + count};
  size_t length;
  const char *begin = string(&rest, &length);
  char *pattern = strndup(begin, length);
  struct text text = {0};
  if (pattern) format(&text, pattern, &rest);
  free(pattern);
  FILE *stream = words[0] & TO_STDERR ? stderr : stdout;
  if (text.count) {
    fwrite(text.bytes, 1, text.count, stream);
    fflush(stream);
  }
  free(text.bytes);
  return (int)text.count;
}
