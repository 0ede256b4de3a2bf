// Where --input arrays go, and what is generated.
#include "src/cli/inputs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "src/eval/inputs.h"
#include "src/io/file.h"

namespace tpuc::cli {
namespace {

std::vector<InputPort> Ports() {
  return {{"x", Shape::Array(Type::kF32, {2})},
          {"w", Shape::Array(Type::kBF16, {1})},
          {"t", Shape::Tuple({Shape::Array(Type::kS32, {}), Shape::Array(Type::kPred, {2})})}};
}

class InputsTest : public testing::Test {
 protected:
  void Write(const NpzFile& file) {
    DiagSink diags;
    ASSERT_TRUE(WriteFile(path_, FormatNpz(file), &diags)) << diags.Render();
  }
  std::optional<std::vector<Literal>> Read() { return ReadInputs(Ports(), {path_}, 3, &diags_); }
  void TearDown() override { unlink(path_.c_str()); }

  std::string path_ = testing::TempDir() + "/tpuc_inputs_test_" + std::to_string(getpid());
  DiagSink diags_;
};

NpyArray Floats(std::vector<float> v) {
  NpyArray a{'f', 4, {static_cast<int64_t>(v.size())}, std::vector<uint8_t>(v.size() * 4)};
  std::memcpy(a.data.data(), v.data(), a.data.size());
  return a;
}

TEST_F(InputsTest, ByNumberNameAndLeaf) {
  Write({{{"in0", Floats({1, 2})},
          {"w", {'u', 2, {1}, {0x80, 0x3f}}},
          {"in2.1", {'b', 1, {2}, {1, 0}}},
          {"out0", Floats({9})},
          {"chip0", Floats({9})}}});
  auto in = Read();
  ASSERT_TRUE(in) << diags_.Render();
  EXPECT_EQ((*in)[0].data<float>()[1], 2);
  EXPECT_EQ((*in)[1].data<uint16_t>()[0], 0x3f80);
  EXPECT_EQ((*in)[2].elements()[1].bytes()[0], 1);
  // The leaf that no array fills is generated.
  EXPECT_EQ((*in)[2].elements()[0].data<int32_t>()[0],
            GenerateInput(Ports()[2].shape, 2, 3).elements()[0].data<int32_t>()[0]);
  EXPECT_TRUE(diags_.diags().empty()) << diags_.Render();
}

TEST_F(InputsTest, NumpyPositionalNames) {
  Write({{{"arr_0", Floats({5, 6})}}});
  auto in = Read();
  ASSERT_TRUE(in) << diags_.Render();
  EXPECT_EQ((*in)[0].data<float>()[0], 5);
  EXPECT_TRUE((*in)[1].IdenticalTo(GenerateInput(Ports()[1].shape, 1, 3)));
}

TEST_F(InputsTest, StrangeNamesAreNamed) {
  Write({{{"ww", Floats({1})}}});
  EXPECT_TRUE(Read());
  EXPECT_NE(diags_.Render().find("W0300"), std::string::npos);
  EXPECT_NE(diags_.Render().find("did you mean 'w'?"), std::string::npos);
}

TEST_F(InputsTest, WrongOnesAreRefused) {
  Write({{{"in1", Floats({1})}, {"in7", Floats({1})}, {"in2.5", Floats({1})}}});
  EXPECT_FALSE(Read());
  std::string text = diags_.Render();
  EXPECT_NE(text.find("parameter 1 ('w'): the array is float32[1]; bf16[1] is read from uint16"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("there is no parameter 7: the program has 3"), std::string::npos);
  EXPECT_NE(text.find("the parameter has no such leaf"), std::string::npos);
}

TEST(Outputs, LeavesOfTuplesInOrder) {
  Literal t(
      Shape::Tuple({Shape::Array(Type::kF32, {1}), Shape::Tuple({Shape::Array(Type::kS4, {1})})}));
  NpzFile f = OutputArrays(t);
  ASSERT_EQ(f.entries.size(), 2u);
  EXPECT_EQ(f.entries[0].name, "out0");
  EXPECT_EQ(f.entries[1].name, "out1");
  EXPECT_EQ(f.entries[1].array.kind, 'i');
}

}  // namespace
}  // namespace tpuc::cli
