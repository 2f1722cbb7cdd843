// Reason why there is no capture; the application continues.
#pragma once
#include <stdexcept>
#include <string>

namespace capture {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace capture
