// Typed buffer accesses (BUFFER_LOAD_FORMAT_* and similar): memory holds components of a data format (their widths) and a
// number format (meaning of the bits), registers hold 32-bit or 16-bit integers or floats.
#include <math.h>
#include "buffer.h"

enum { UNORM, SNORM, USCALED, SSCALED, UINT, SINT, RESERVED, FLOAT };
enum { INVALID_FORMAT = 0, COMPONENTS = 4, SELECT_ONE = 1, SELECT_FIRST = 4 };

struct format { int bits, count, number; };

// Component widths of BUF_DATA_FORMAT_*; 0: mixed widths, not modelled.
static struct format format_of(int data, int number) {
  static const struct { uint8_t bits, count; } widths[16] = {[1] = {8, 1}, [2] = {16, 1}, [3] = {8, 2}, [4] = {32, 1}, [5] = {16, 2},
    [10] = {8, 4}, [11] = {32, 2}, [12] = {16, 4}, [13] = {32, 3}, [14] = {32, 4}};
  return (struct format){widths[data].bits, widths[data].count, number};
}

static int is_modelled(const struct format *f) { return f->bits && f->number != RESERVED && !(f->number == FLOAT && f->bits == 8); }

static int is_integer(const struct format *f) { return f->number == UINT || f->number == SINT; }

static uint32_t bits_of(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }
static float float_of(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static float half_to_float(uint32_t bits) { _Float16 h; uint16_t low = (uint16_t)bits; memcpy(&h, &low, 2); return (float)h; }
static uint32_t float_to_half(float x) { _Float16 h = (_Float16)x; uint16_t bits; memcpy(&bits, &h, 2); return bits; }

static uint32_t mask_of(int bits) { return bits == 32 ? 0xffffffffu : (1u << bits) - 1; }
static int32_t sign_extended(uint32_t x, int bits) { return (int32_t)(x << (32 - bits)) >> (32 - bits); }

// ---- one component ----

static float as_float(uint32_t raw, const struct format *f) {
  double largest = mask_of(f->bits);
  switch (f->number) {
    case UNORM: return (float)(raw / largest);
    case SNORM: return (float)fmax(sign_extended(raw, f->bits) / (double)(mask_of(f->bits) >> 1), -1.0);
    case USCALED: return (float)raw;
    case SSCALED: return (float)sign_extended(raw, f->bits);
    default: return f->bits == 16 ? half_to_float(raw) : float_of(raw);
  }
}

static uint32_t to_register(uint32_t raw, const struct format *f, int is_d16) {
  if (is_integer(f)) {
    uint32_t value = f->number == SINT ? (uint32_t)sign_extended(raw, f->bits) : raw;
    return is_d16 ? value & 0xffff : value;
  }
  if (f->number == FLOAT && f->bits == (is_d16 ? 16 : 32)) return raw;  // as it is, NaN included
  float value = as_float(raw, f);
  return is_d16 ? float_to_half(value) : bits_of(value);
}

static uint32_t clamped(double value, double low, double high) {
  return (uint32_t)(int64_t)nearbyint(value != value ? 0 : value < low ? low : value > high ? high : value);
}

static uint32_t to_memory(uint32_t value, const struct format *f, int is_d16) {
  double largest = mask_of(f->bits), half = mask_of(f->bits) >> 1;
  if (is_integer(f)) {  // saturate
    if (f->number == UINT) return value > mask_of(f->bits) ? mask_of(f->bits) : value;
    int64_t number = is_d16 ? sign_extended(value, 16) : (int32_t)value;
    return clamped((double)number, -half - 1, half) & mask_of(f->bits);
  }
  if (f->number == FLOAT && f->bits == (is_d16 ? 16 : 32)) return value;
  double number = is_d16 ? half_to_float(value) : float_of(value);
  switch (f->number) {
    case UNORM: return clamped(number * largest, 0, largest);
    case SNORM: return clamped(number * half, -half, half) & mask_of(f->bits);
    case USCALED: return clamped(number, 0, largest);
    case SSCALED: return clamped(number, -half - 1, half) & mask_of(f->bits);
    default: return f->bits == 16 ? float_to_half((float)number) : bits_of((float)number);
  }
}

static uint32_t read_component(const uint8_t *p, int bits) {
  uint32_t value = 0;
  memcpy(&value, p, (size_t)bits / 8);
  return value;
}

// ---- registers ----

static void put(struct rpl_wave *w, int dst, uint64_t lane, int component, uint32_t value, int packing) {
  if (packing == RPL_FORMAT_32) {
    w->vgpr[dst + component][lane] = value;
    return;
  }
  uint32_t *word = &w->vgpr[dst + component / 2][lane];
  int is_high = (packing & ~RPL_FORMAT_CLEARS) == RPL_FORMAT_D16_HI || component % 2;
  uint32_t old = packing & RPL_FORMAT_CLEARS && component % 2 == 0 ? 0 : *word;
  *word = is_high ? (old & 0xffff) | value << 16 : (old & 0xffff0000u) | value;
}

static uint32_t get(const struct rpl_wave *w, int data, uint64_t lane, int component, int packing) {
  if (packing == RPL_FORMAT_32) return w->vgpr[data + component][lane];
  uint32_t word = w->vgpr[data + component / 2][lane];
  return packing == RPL_FORMAT_D16_HI || component % 2 ? word >> 16 : word & 0xffff;
}

// ---- helpers of wave.h ----

// Returns the format of the instruction (data | number << 4) or else of the resource, with its selection of channels.
static int resolve(const struct rpl_wave *w, int srsrc, int format, struct format *f, int *select) {
  uint32_t word = w->sgpr[srsrc + 3];
  int data = format < 0 ? word >> 15 & 15 : format & 15, number = format < 0 ? word >> 12 & 7 : format >> 4 & 7;
  *f = format_of(data, number);
  for (int c = 0; c < COMPONENTS; c++) select[c] = format < 0 ? (int)(word >> 3 * c & 7) : c < f->count ? SELECT_FIRST + c : 0;
  return data;
}

int rpl_format_load(struct rpl_wave *w, int inst, int dst, int srsrc, int vindex, int voffset, uint32_t soffset, int32_t offset,
                    int components, int packing, int format) {
  struct format f;
  struct rpl_buffer_access access = {0};
  int select[COMPONENTS], is_d16 = packing != RPL_FORMAT_32;
  if (resolve(w, srsrc, format, &f, select) != INVALID_FORMAT) {
    if (!is_modelled(&f)) return rpl_raise(w, RPL_FAULT_UNSUPPORTED, inst, RPL_LOAD, 0, 0, NULL, 0);
    uint32_t width = (uint32_t)(f.bits / 8 * f.count);
    if (rpl_buffer_addresses(w, inst, RPL_LOAD, RPL_TYPED, srsrc, vindex, voffset, soffset, offset, width, 1, &access)) return 1;
    w->machine->counters.load_bytes += width * (uint64_t)__builtin_popcountll(access.lanes[0]);
  }
  w->machine->counters.buffer_read_waves++;
  uint32_t one = is_integer(&f) ? 1 : is_d16 ? float_to_half(1) : bits_of(1);
  RPL_FOR_LANES(rpl_exec(w), l)
    for (int c = 0; c < components; c++) {
      int channel = select[c] - SELECT_FIRST;
      uint32_t value = select[c] == SELECT_ONE ? one : 0;
      if (channel >= 0 && channel < f.count && access.lanes[0] >> l & 1)
        value = to_register(read_component((const uint8_t *)access.address[l] + channel * f.bits / 8, f.bits), &f, is_d16);
      put(w, dst, l, c, value, packing);
    }
  return 0;
}

int rpl_format_store(struct rpl_wave *w, int inst, int data, int srsrc, int vindex, int voffset, uint32_t soffset, int32_t offset,
                     int components, int packing, int format) {
  struct format f;
  struct rpl_buffer_access access;
  int select[COMPONENTS], is_d16 = packing != RPL_FORMAT_32;
  w->machine->counters.buffer_write_waves++;
  if (resolve(w, srsrc, format, &f, select) == INVALID_FORMAT) return 0;
  if (!is_modelled(&f)) return rpl_raise(w, RPL_FAULT_UNSUPPORTED, inst, RPL_STORE, 0, 0, NULL, 0);
  uint32_t width = (uint32_t)(f.bits / 8 * f.count);
  if (rpl_buffer_addresses(w, inst, RPL_STORE, RPL_TYPED, srsrc, vindex, voffset, soffset, offset, width, 1, &access)) return 1;
  w->machine->counters.store_bytes += width * (uint64_t)__builtin_popcountll(access.lanes[0]);
  RPL_FOR_LANES(access.lanes[0], l)
    for (int channel = 0; channel < f.count; channel++) {
      int source = channel;  // component of the data selected for this channel
      if (format < 0)
        for (int c = COMPONENTS - 1; c >= 0; c--)
          if (select[c] == SELECT_FIRST + channel) source = c;
      uint32_t value = source < components ? to_memory(get(w, data, l, source, packing), &f, is_d16) : 0;
      memcpy((uint8_t *)access.address[l] + channel * f.bits / 8, &value, (size_t)f.bits / 8);
    }
  return 0;
}
