// Elided constants: which they are, and XLA's values for them (elided.h).
#include "src/ir/elided.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tpuc {
namespace {

constexpr char kAllConstants[] = "print the module with all constants (XLA: print_large_constants)";

struct Place {
  Loc loc;
  Literal* literal;
};

void Collect(Loc loc, Literal* literal, std::vector<Place>* places) {
  if (literal->elided()) places->push_back({loc, literal});
  for (Literal& e : literal->elements()) Collect(loc, &e, places);
}

std::vector<Place> ElidedOf(Module* module) {
  std::vector<Place> places;
  for (const auto& c : module->computations) {
    for (const auto& i : c->instructions) {
      if (i->literal) Collect(i->loc, i->literal.get(), &places);
      const AttrValue* attribute = i->Find(AttrId::kLiteral);
      const auto* given = attribute ? std::get_if<std::shared_ptr<Literal>>(attribute) : nullptr;
      if (given && *given) Collect(i->loc, given->get(), &places);
    }
  }
  // Computations stand in the module as they are called, operands before users.
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::tie(a.loc.line, a.loc.column) < std::tie(b.loc.line, b.loc.column);
  });
  return places;
}

// What XLA's parser keeps from one constant of the process to the next.
struct Counters {
  uint32_t word = 0;
  uint8_t byte = 0;
};

// As jaxlib 0.10.2 does, asked for each type: the counter as 32-bit words from the front of the
// bytes. One to three bytes left over have a counter of their own, which goes to the bytes from
// number size / 4 on, over what the words have put there, and not to the end, which stays zero.
Literal Counted(const Shape& shape, Counters* counters) {
  Literal literal(shape);
  uint8_t* data = literal.bytes();
  const int64_t size = literal.byte_size(), words = size / 4;
  const uint32_t mask = shape.type == Type::kPred ? 0x01010101 : 0xffffffff;
  for (int64_t i = 0; i < words; ++i) {
    const uint32_t word = counters->word++ & mask;
    std::memcpy(data + 4 * i, &word, 4);
  }
  for (int64_t i = 0; i < size % 4; ++i) data[words + i] = counters->byte++ & mask;
  const int bits = BitsOf(shape.type);
  if (bits >= 8) return literal;
  const bool is_signed = ClassOf(shape.type) == TypeClass::kSigned;
  for (int64_t i = 0; i < size; ++i) {  // an element takes a byte, of which the low bits count
    data[i] &= (1 << bits) - 1;
    if (is_signed && data[i] >> (bits - 1)) data[i] |= 0xff << bits;
  }
  return literal;
}

}  // namespace

bool HasElided(const Literal& literal) {
  return literal.elided() ||
         std::any_of(literal.elements().begin(), literal.elements().end(), HasElided);
}

void AddElided(std::shared_ptr<const Source> source, Loc loc, absl::string_view name,
               DiagSink* diags) {
  Diag& diag = diags->Add(
      DiagCode::kEvalElided, std::move(source), loc,
      absl::StrCat("the value of constant ", name, " was left out when the program was printed"));
  diag.hint = absl::StrCat(kAllConstants,
                           ", or run it with what XLA makes up for them: --elided-constants=xla");
}

bool FillElided(Module* module, int64_t limit, DiagSink* diags) {
  const std::vector<Place> places = ElidedOf(module);
  if (places.empty()) return true;
  int64_t left = limit;
  for (const Place& p : places) {
    const int64_t bytes = p.literal->shape().LiteralBytes();  // saturates
    if (bytes > left) {
      diags->Add(
          DiagCode::kEvalMemory, module->source, p.loc,
          absl::StrCat("the elided constants up to this one, ",
                       ToString(p.literal->shape(), /*with_layout=*/false), ", take more than the ",
                       limit >> 20, " MiB that there are for them"));
      return false;
    }
    left -= bytes;
  }
  Counters counters;
  for (const Place& p : places) {
    *p.literal = Counted(p.literal->shape(), &counters);
  }
  for (const Diag& d : diags->diags()) {
    if (d.code == DiagCode::kElidedFilled && d.source == module->source) return true;
  }
  Diag& diag =
      diags->Add(DiagCode::kElidedFilled, module->source, places.front().loc,
                 absl::StrCat(places.size(),
                              places.size() == 1 ? " elided constant is" : " elided constants are",
                              " filled with counters, as XLA's parser does: "
                              "the program's results are not those that it was printed for"));
  diag.hint = kAllConstants;
  return true;
}

}  // namespace tpuc
