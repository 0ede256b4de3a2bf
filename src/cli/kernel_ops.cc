#include "src/cli/kernel_ops.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "src/cli/compile.h"

namespace tpuc::cli {
namespace {

struct OpRow {
  const char* text;    // over x and y, arrays of [1024, 128]
  const char* type;    // theirs
  const char* result;  // type and dimensions; "": as the operands
};

constexpr OpRow kRows[] = {
    {"x", "f32", ""},
    {"x + y", "f32", ""},
    {"x - y", "f32", ""},
    {"x * y", "f32", ""},
    {"x / y", "f32", ""},
    {"x % y", "f32", ""},
    {"-x", "f32", ""},
    {"abs(x)", "f32", ""},
    {"sign(x)", "f32", ""},
    {"max(x, y)", "f32", ""},
    {"min(x, y)", "f32", ""},
    {"clamp(x, y, x)", "f32", ""},
    {"select(x < y, x, y)", "f32", ""},
    {"floor(x)", "f32", ""},
    {"ceil(x)", "f32", ""},
    {"round(x)", "f32", ""},
    {"sqrt(x)", "f32", ""},
    {"rsqrt(x)", "f32", ""},
    {"cbrt(x)", "f32", ""},
    {"exp(x)", "f32", ""},
    {"exp2(x)", "f32", ""},
    {"expm1(x)", "f32", ""},
    {"log(x)", "f32", ""},
    {"log1p(x)", "f32", ""},
    {"pow(x, y)", "f32", ""},
    {"tanh(x)", "f32", ""},
    {"logistic(x)", "f32", ""},
    {"sin(x)", "f32", ""},
    {"cos(x)", "f32", ""},
    {"tan(x)", "f32", ""},
    {"atan2(x, y)", "f32", ""},
    {"erf(x)", "f32", ""},
    {"x + y", "bf16", ""},
    {"exp(x)", "bf16", ""},
    {"x + y", "s32", ""},
    {"x * y", "s32", ""},
    {"x / y", "s32", ""},
    {"x % y", "s32", ""},
    {"x & y", "s32", ""},
    {"x ^ y", "s32", ""},
    {"shift_left(x, y)", "s32", ""},
    {"shift_right_logical(x, y)", "s32", ""},
    {"popcnt(x)", "s32", ""},
    {"count_leading_zeros(x)", "s32", ""},
    {"convert(x, bf16)", "f32", "bf16[1024,128]"},
    {"convert(x, s32)", "f32", "s32[1024,128]"},
    {"convert(x, f32)", "bf16", "f32[1024,128]"},
    {"bitcast_convert(x, s32)", "f32", "s32[1024,128]"},
    {"sum(x, axis=1, keepdims=true)", "f32", "f32[1024,1]"},
    {"max(x, axis=1, keepdims=true)", "f32", "f32[1024,1]"},
    {"sum(x, axis=0, keepdims=true)", "f32", "f32[1,128]"},
    {"max(x, axis=0, keepdims=true)", "f32", "f32[1,128]"},
    {"broadcast(x[0:1, :], [1024, 128])", "f32", ""},
    {"broadcast(x[:, 0:1], [1024, 128])", "f32", ""},
    {"iota([1024, 128], dim=0)", "s32", ""},
    {"iota([1024, 128], dim=1)", "s32", ""},
    {"x^T", "f32", "f32[128,1024]"},
    {"reverse(x, {0})", "f32", ""},
    {"reverse(x, {1})", "f32", ""},
    {"concat(x[:, 64:128], x[:, 0:64], axis=1)", "f32", ""},
    {"concat(x[8:1024, :], x[0:8, :], axis=0)", "f32", ""},
    {"pad(x[0:1000, :], 0, [24:0, 0:0])", "f32", ""},
    {"x[0:1024:8, :]", "f32", "f32[128,128]"},
    {"x[0:1024:8, :]", "bf16", "bf16[128,128]"},
    {"x[iota([1024]), :]", "f32", ""},
    {"take(x, iota([1024]), axis=0)", "bf16", ""},
    {"roll(x, 3, axis=1)", "f32", ""},
    {"cumsum(x, axis=0)", "f32", ""},
    {"argmax(x, axis=1, keepdims=true)", "f32", "s32[1024,1]"},
    {"random_bits(7, [1024, 128])", "u32", ""},
    {"pack(x, y)", "f32", "u32[1024,128]"},
    {"unpack(x, 1)", "u32", "bf16[1024,128]"},
    {"pack(x, x, y, y)", "s32", "u32[1024,128]"},
    {"convert(unpack(x, 3, type=s8), s32)", "u32", "s32[1024,128]"},
    {"dot(x, y, lhs_contracting={1}, rhs_contracting={1})", "f32", "f32[1024,1024]"},
    {"dot(x, y, lhs_contracting={0}, rhs_contracting={0})", "f32", "f32[128,128]"},
};

// An array of HLO text in VMEM.
std::string InVmem(const std::string& array) {
  const bool half = array.substr(0, 4) == "bf16";
  return absl::StrCat(array, half ? "{1,0:T(8,128)(2,1)S(1)}" : "{1,0:T(8,128)S(1)}");
}

std::string KernelOf(const OpRow& row) {
  const std::string plain = absl::StrCat(row.type, "[1024,128]");
  const std::string result = row.result[0] == '\0' ? plain : std::string(row.result);
  return absl::StrReplaceAll(R"(kernel op {
  in a: IN;
  in b: IN;
  out o: OUT;
  x = a[:];
  y = b[:];
  o[:] = TEXT;
}
program p {
  buffer ha: PLAIN;
  buffer hb: PLAIN;
  buffer ho: RESULT;
  buffer va: IN;
  buffer vb: IN;
  buffer vo: OUT;
  input ha;
  input hb;
  output ho;
  copy_start ca: ha -> va;
  copy_start cb: hb -> vb;
  copy_done da: ca;
  copy_done db: cb;
  call op(va, vb, vo);
  copy_start co: vo -> ho;
  copy_done do: co;
}
)",
                             {{"IN", InVmem(plain)},
                              {"OUT", InVmem(result)},
                              {"PLAIN", plain},
                              {"RESULT", result},
                              {"TEXT", row.text}});
}

}  // namespace

std::vector<std::vector<std::string>> KernelOps(const Chip& chip) {
  constexpr double kRegisters = 128;
  std::vector<std::vector<std::string>> table;
  for (const OpRow& row : kRows) {
    DiagSink diags;
    CompileOptions options;
    options.chip = &chip;
    const auto compiled =
        Compile(std::make_shared<Source>(Source{"op.tk", KernelOf(row)}), options, &diags);
    if (!compiled || !compiled->program) {
      table.push_back({row.text, row.type, "-", "not compiled to bundles yet"});
      continue;
    }
    const isa::KernelInfo& info = compiled->program->kernels[0].info;
    const double cycles = static_cast<double>(info.schedule_cycles) / kRegisters;
    table.push_back({row.text, row.type, absl::StrFormat("%.2f", cycles),
                     info.loops.empty() ? "" : info.loops.back().bound});
  }
  return table;
}

}  // namespace tpuc::cli
