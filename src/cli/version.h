// The version that --version prints.
#pragma once

namespace tpuc::cli {
constexpr char kVersion[] = "0.1";
}
