// Conversions to __bf16 that compilers leave to a library on the host, which the library of the linker may lack.
#pragma once

#if !defined(__HIP_DEVICE_COMPILE__) && !defined(__HIPCC_RTC__) && defined(__x86_64__)
// To nearest even: half a unit in the last place is added, less the smallest part if the kept bits are even.
extern "C" __attribute__((weak, used)) __bf16 __truncsfbf2(float a) {
  const unsigned int bits = __builtin_bit_cast(unsigned int, a);
  const unsigned int rounded = a != a ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
  return __builtin_bit_cast(__bf16, (unsigned short)(rounded >> 16));
}
// The float between has its last bit set if it is not exact, so that it rounds as the double does.
extern "C" __attribute__((weak, used)) __bf16 __truncdfbf2(double a) {
  float near = (float)a;
  unsigned int bits = __builtin_bit_cast(unsigned int, near);
  if (a == a && (double)near != a && !(bits & 1)) bits += (double)__builtin_fabsf(near) > __builtin_fabs(a) ? -1 : 1;
  return __truncsfbf2(__builtin_bit_cast(float, bits));
}
#endif
