// Attributes as text, by form, in XLA's order: the opcode's own, computations, then those that any
// instruction may carry, metadata and backend_config last (printer.h).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "grammar/hlo/float_text.h"
#include "grammar/hlo/lexer.h"
#include "grammar/hlo/print_literal.h"
#include "grammar/hlo/printer.h"
#include "src/ir/op_table.h"

namespace tpuc::hlo {
namespace {

// Printing order where it is not the table's.
int Position(AttrId id) {
  if (id == AttrId::kParameterReplication) return 2 * static_cast<int>(AttrId::kCondition) - 1;
  if (id == AttrId::kResultAccuracy) return 2 * static_cast<int>(AttrId::kStatistics) + 1;
  return 2 * static_cast<int>(id);
}

void AppendInts(const Ints& values, std::string* out) {
  *out += '{';
  for (size_t i = 0; i < values.size(); ++i) absl::StrAppend(out, i ? "," : "", values[i]);
  *out += '}';
}

void AppendWindow(const Window& window, std::string* out) {
  const std::vector<WindowDim>& dims = window.dims;
  bool any = false;
  auto field = [&](absl::string_view name, bool needed, auto print) {
    if (!needed) return;
    absl::StrAppend(out, any ? " " : "", name, "=");
    any = true;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i) *out += 'x';
      print(dims[i]);
    }
  };
  auto any_dim = [&](auto test) { return std::any_of(dims.begin(), dims.end(), test); };
  auto number = [&](int64_t WindowDim::*member) {
    return [out, member](const WindowDim& d) { absl::StrAppend(out, d.*member); };
  };
  *out += '{';
  field("size", !dims.empty(), number(&WindowDim::size));
  field("stride", any_dim([](const WindowDim& d) { return d.stride != 1; }),
        number(&WindowDim::stride));
  field("pad", any_dim([](const WindowDim& d) { return d.pad_low != 0 || d.pad_high != 0; }),
        [&](const WindowDim& d) { absl::StrAppend(out, d.pad_low, "_", d.pad_high); });
  field("lhs_dilate", any_dim([](const WindowDim& d) { return d.base_dilation != 1; }),
        number(&WindowDim::base_dilation));
  field("rhs_dilate", any_dim([](const WindowDim& d) { return d.window_dilation != 1; }),
        number(&WindowDim::window_dilation));
  field("rhs_reversal", any_dim([](const WindowDim& d) { return d.reversed; }),
        [&](const WindowDim& d) { *out += d.reversed ? '1' : '0'; });
  *out += '}';
}

void AppendPadConfig(const std::vector<PadDim>& dims, std::string* out) {
  if (dims.empty()) *out += "\"\"";  // of a scalar
  bool interior = std::any_of(dims.begin(), dims.end(), [](auto& d) { return d.interior != 0; });
  for (size_t i = 0; i < dims.size(); ++i) {
    absl::StrAppend(out, i ? "x" : "", dims[i].low, "_", dims[i].high);
    if (interior) absl::StrAppend(out, "_", dims[i].interior);
  }
}

void AppendSlices(const std::vector<SliceDim>& dims, std::string* out) {
  bool strides = std::any_of(dims.begin(), dims.end(), [](auto& d) { return d.stride != 1; });
  *out += '{';
  for (size_t i = 0; i < dims.size(); ++i) {
    absl::StrAppend(out, i ? ", [" : "[", dims[i].start, ":", dims[i].limit);
    if (strides) absl::StrAppend(out, ":", dims[i].stride);
    *out += ']';
  }
  *out += '}';
}

// A dict is printed raw, anything else as an escaped string.
std::string StringOrDict(const std::string& text) {
  return IsBracedDict(text) ? text : Quoted(text);
}

// One overload an alternative of AttrValue; `id` tells forms that share one apart.
struct ValuePrinter {
  AttrId id;
  std::string* out;

  void operator()(bool value) { *out += value ? "true" : "false"; }
  void operator()(int64_t value) { absl::StrAppend(out, value); }
  void operator()(double value) { *out += DoubleText(value); }
  void operator()(const std::string& value) {
    AttrForm form = InfoOf(id).form;
    *out += form == AttrForm::kWord           ? value
            : form == AttrForm::kStringOrJson ? StringOrDict(value)
                                              : Quoted(value);
  }
  void operator()(const Ints& values) {
    if (InfoOf(id).form != AttrForm::kBools) return AppendInts(values, out);
    *out += '{';
    for (size_t i = 0; i < values.size(); ++i) {
      absl::StrAppend(out, i ? "," : "", values[i] ? "true" : "false");
    }
    *out += '}';
  }
  void operator()(const std::vector<Ints>& lists) {
    *out += '{';
    for (size_t i = 0; i < lists.size(); ++i) {
      if (i) *out += ',';
      AppendInts(lists[i], out);
    }
    *out += '}';
  }
  void operator()(const std::vector<std::string>& words) {
    absl::StrAppend(out, "{", absl::StrJoin(words, ","), "}");
  }
  void operator()(const Window& window) { AppendWindow(window, out); }
  void operator()(const DimLabels& labels) {
    absl::StrAppend(out, labels.lhs, "_", labels.rhs, "->", labels.output);
  }
  void operator()(const std::vector<PadDim>& dims) { AppendPadConfig(dims, out); }
  void operator()(const std::vector<SliceDim>& dims) { AppendSlices(dims, out); }
  void operator()(const Computation* computation) { absl::StrAppend(out, "%", computation->name); }
  void operator()(const std::vector<Computation*>& computations) {
    *out += '{';
    for (size_t i = 0; i < computations.size(); ++i) {
      absl::StrAppend(out, i ? ", %" : "%", computations[i]->name);
    }
    *out += '}';
  }
  void operator()(const std::vector<Instruction*>& instructions) {
    *out += '{';
    for (size_t i = 0; i < instructions.size(); ++i) {
      absl::StrAppend(out, i ? ", %" : "%", instructions[i]->name);
    }
    *out += '}';
  }
  void operator()(const std::vector<Shape>& shapes) {
    bool list = InfoOf(id).form == AttrForm::kShapes;
    if (list) *out += '{';
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (i) *out += ", ";
      AppendTo(shapes[i], true, out);
    }
    if (list) *out += '}';
  }
  void operator()(const std::vector<std::pair<std::string, std::string>>& attributes) {
    *out += FrontendAttributesText(attributes);
  }
  void operator()(const std::shared_ptr<Literal>& literal) { AppendUntypedLiteral(*literal, out); }
  void operator()(const RawText& raw) { *out += raw.text; }
};

void AppendMetadata(const Metadata& metadata, std::string* out) {
  *out += ", metadata={";
  bool any = false;
  auto text = [&](absl::string_view name, absl::string_view value) {
    if (value.empty()) return;
    absl::StrAppend(out, any ? " " : "", name, "=");
    AppendQuoted(value, out);
    any = true;
  };
  auto number = [&](absl::string_view name, int32_t value) {
    if (value == 0) return;
    absl::StrAppend(out, any ? " " : "", name, "=", value);
    any = true;
  };
  text("op_type", metadata.op_type.view());
  text("op_name", metadata.op_name.view());
  text("source_file", metadata.source_file.view());
  number("source_line", metadata.source_line);
  number("source_end_line", metadata.source_end_line);
  number("source_column", metadata.source_column);
  number("source_end_column", metadata.source_end_column);
  if (!metadata.other.empty()) absl::StrAppend(out, any ? " " : "", metadata.other.view());
  any |= !metadata.other.empty();
  number("stack_frame_id", metadata.stack_frame_id);
  *out += '}';
}

}  // namespace

std::string FrontendAttributesText(
    const std::vector<std::pair<std::string, std::string>>& attributes) {
  std::string out = "{";
  for (size_t i = 0; i < attributes.size(); ++i) {
    absl::StrAppend(&out, i ? "," : "", attributes[i].first, "=",
                    StringOrDict(attributes[i].second));
  }
  return out + "}";
}

void AppendAttributes(const Instruction& instruction, std::string* out) {
  absl::InlinedVector<const Attr*, 8> attrs;
  bool short_form = !AsyncShortForm(instruction).empty();
  const Instruction* wrapped = nullptr;
  if (short_form && instruction.op == Op::kAsyncStart) {
    wrapped = instruction.ComputationAttr(AttrId::kCalls)->root;
    for (const Attr& attr : wrapped->attrs) {
      if (!IsDefault(*wrapped, attr)) attrs.push_back(&attr);
    }
  }
  for (const Attr& attr : instruction.attrs) {
    bool made = attr.id == AttrId::kAsyncOpcode ||
                (wrapped && (attr.id == AttrId::kCalls || wrapped->Has(attr.id)));
    if (!made && !IsDefault(instruction, attr)) attrs.push_back(&attr);
  }
  if (attrs.size() > 1) {
    std::sort(attrs.begin(), attrs.end(),
              [](const Attr* a, const Attr* b) { return Position(a->id) < Position(b->id); });
  }
  bool metadata_done = !instruction.metadata || instruction.metadata->empty();
  for (const Attr* attr : attrs) {
    if (!metadata_done && attr->id > AttrId::kMetadata) {
      AppendMetadata(*instruction.metadata, out);
      metadata_done = true;
    }
    absl::StrAppend(out, ", ", AttrName(attr->id), "=");
    std::visit(ValuePrinter{attr->id, out}, attr->value);
  }
  if (!metadata_done) AppendMetadata(*instruction.metadata, out);
}

}  // namespace tpuc::hlo
