// Makes a failing module smaller, as long as it fails after the same pass: other roots, operands
// that become parameters, called computations without their steps, smaller sizes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tpuc::random_modules {

// `fails` says whether a module's text still shows the fault. Returns the smallest text found.
std::string Shrink(std::string text, const std::function<bool(const std::string&)>& fails);

}  // namespace tpuc::random_modules
