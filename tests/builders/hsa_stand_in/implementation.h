// Declarations of the implementations in namespace stand_in, with the types of the HSA functions.
#pragma once
#include "entry_points.h"
#include "stand_in.h"

namespace stand_in {

#define STAND_IN_DECLARE(table, slot, name) decltype(::name) name;
STAND_IN_ENTRY_POINTS(STAND_IN_DECLARE)

}  // namespace stand_in
