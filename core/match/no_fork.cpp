// Where processes do not fork (Windows), there is nothing to guard.
#include "match/fork.hpp"

namespace narrows {

ForkGuard::ForkGuard(FairMutex& mutex) : mutex_(mutex) {}
ForkGuard::~ForkGuard() = default;

}  // namespace narrows
