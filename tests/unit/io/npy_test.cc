// .npy and .npz files: bytes as NumPy 1.24 writes them, damaged ones, and conversions.
#include "src/io/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>
#include <sstream>

#include "src/io/file.h"
#include "src/io/zip.h"

namespace tpuc {
namespace {

std::string Npy(std::string header, std::string data, char version = 1) {
  std::string out("\x93NUMPY");
  out += version;
  out += '\0';
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  if (version > 1) out += std::string(2, '\0');
  return out + header + data;
}

std::string Bytes(std::initializer_list<int> v) {
  std::string s;
  for (int x : v) s += static_cast<char>(x);
  return s;
}

NpyArray MustParse(const std::string& bytes) {
  DiagSink diags;
  auto a = ParseNpy(bytes, "a.npy", &diags);
  EXPECT_TRUE(a) << diags.Render();
  return a ? *a : NpyArray{};
}

std::string MustFail(const std::string& bytes) {
  DiagSink diags;
  EXPECT_FALSE(ParseNpy(bytes, "a.npy", &diags));
  return diags.Render();
}

TEST(Npy, WritesWhatNumpyWrites) {
  // np.save of np.array([[1, 2, 3]], np.uint8): 128 bytes of header, then the data.
  NpyArray a{'u', 1, {1, 3}, {1, 2, 3}};
  std::string want("\x93NUMPY\x01\x00v\x00", 10);
  want += "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 3), }";
  want += std::string(128 - 1 - want.size(), ' ') + "\n" + Bytes({1, 2, 3});
  EXPECT_EQ(FormatNpy(a), want);
  EXPECT_NE(FormatNpy({'f', 4, {3}, std::vector<uint8_t>(12)})
                .find("'<f4', 'fortran_order': False, 'shape': (3,), }"),
            std::string::npos);
  EXPECT_NE(FormatNpy({'f', 4, {}, std::vector<uint8_t>(4)}).find("'shape': (), }"),
            std::string::npos);
}

TEST(Npy, ReadsOrders) {
  std::string fortran = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n";
  EXPECT_EQ(MustParse(Npy(fortran, Bytes({1, 4, 2, 5, 3, 6}))).data,
            (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  std::string big = "{'descr': '>i4', 'fortran_order': False, 'shape': (1,), }";
  EXPECT_EQ(MustParse(Npy(big, Bytes({0, 0, 1, 2}))).data, (std::vector<uint8_t>{2, 1, 0, 0}));
  // A complex number swaps its halves, not the whole.
  std::string complex = "{'descr': '>c8', 'fortran_order': False, 'shape': (), }";
  EXPECT_EQ(MustParse(Npy(complex, Bytes({1, 2, 3, 4, 5, 6, 7, 8}))).data,
            (std::vector<uint8_t>{4, 3, 2, 1, 8, 7, 6, 5}));
  std::string v2 = "{'shape': (2L,), 'descr': \"<V2\", 'fortran_order': False}";
  EXPECT_EQ(MustParse(Npy(v2, Bytes({1, 2, 3, 4}), 2)).kind, 'V');
}

TEST(Npy, RefusesDamage) {
  std::string good =
      Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", std::string(16, 1));
  for (size_t n = 0; n < good.size(); ++n) MustFail(good.substr(0, n));
  EXPECT_NE(
      MustFail(good.substr(0, good.size() - 1)).find("needs 16 bytes of data, the file has 15"),
      std::string::npos);
  auto header = [](std::string h) { return MustFail(Npy(std::move(h), "")); };
  EXPECT_NE(
      header("{'descr': '<f4', 'fortran_order': False, 'shape': (9000000000, 9000000000, 4), }")
          .find("E0302"),
      std::string::npos);
  EXPECT_NE(header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }").find("E0303"),
            std::string::npos);
  EXPECT_NE(header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }")
                .find("structured"),
            std::string::npos);
  EXPECT_NE(header("{'descr': '<U7', 'fortran_order': False, 'shape': (1,), }").find("'<U7'"),
            std::string::npos);
  header("{'descr': '<f4'");
  header("{'descr': '<f4', 'shape': (99999999999999999999,), 'fortran_order': False}");
  header("{'descr': '<f4', 'shape': (-1,), 'fortran_order': False}");
  header("");
}

TEST(Npy, EmptyArraysOfAnySize) {
  NpyArray a = MustParse(
      Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (0, 9000000000, 9000000000), }", ""));
  EXPECT_EQ(a.data.size(), 0u);
}

std::string DeflatedZip(const std::string& name, const std::string& contents) {
  // As savez_compressed: one member by deflate, local header with zip64 sizes.
  std::string packed(compressBound(contents.size()) + 64, '\0');
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  z.avail_in = contents.size();
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = packed.size();
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  uint32_t crc = crc32(0, reinterpret_cast<const Bytef*>(contents.data()), contents.size());
  auto le = [](uint64_t v, int n) {
    std::string s;
    for (int i = 0; i < n; ++i) s += static_cast<char>(v >> 8 * i & 255);
    return s;
  };
  std::string big = le(0xffffffff, 4);
  std::string local = le(0x04034b50, 4) + le(45, 2) + le(0, 2) + le(8, 2) + le(0, 4) + le(crc, 4) +
                      big + big + le(name.size(), 2) + le(20, 2) + name + le(1, 2) + le(16, 2) +
                      le(contents.size(), 8) + le(packed.size(), 8);
  // The directory too saturates its fields: size, packed size, offset in the extra field.
  std::string record = le(0x02014b50, 4) + le(45, 2) + le(45, 2) + le(0, 2) + le(8, 2) + le(0, 4) +
                       le(crc, 4) + big + big + le(name.size(), 2) + le(28, 2) + le(0, 2) +
                       le(0, 2) + le(0, 2) + le(0, 4) + big + name + le(1, 2) + le(24, 2) +
                       le(contents.size(), 8) + le(packed.size(), 8) + le(0, 8);
  std::string body = local + packed;
  return body + record + le(0x06054b50, 4) + le(0, 4) + le(1, 2) + le(1, 2) + le(record.size(), 4) +
         le(body.size(), 4) + le(3, 2) + "end";
}

TEST(Npz, ReadsDeflatedWithZip64Fields) {
  NpyArray a{'i', 4, {1000}, std::vector<uint8_t>(4000, 7)};
  DiagSink diags;
  auto npz = ParseNpz(DeflatedZip("in0.npy", FormatNpy(a)), "a.npz", &diags);
  ASSERT_TRUE(npz) << diags.Render();
  ASSERT_NE(npz->Find("in0"), nullptr);
  EXPECT_EQ(npz->Find("in0")->data, a.data);
  EXPECT_EQ(ToString(*npz->Find("in0")), "int32[1000]");
}

TEST(Npz, RoundTrip) {
  NpzFile f;
  f.entries.push_back({"in0", {'f', 4, {2}, {0, 0, 128, 63, 0, 0, 0, 64}}});
  f.entries.push_back({"in1", {'b', 1, {}, {1}}});
  std::string bytes = FormatNpz(f);
  EXPECT_EQ(bytes, FormatNpz(f));
  DiagSink diags;
  auto back = ParseNpz(bytes, "a.npz", &diags);
  ASSERT_TRUE(back) << diags.Render();
  ASSERT_EQ(back->entries.size(), 2u);
  EXPECT_EQ(back->entries[1].name, "in1");
  EXPECT_EQ(back->entries[0].array.data, f.entries[0].array.data);
}

TEST(Npz, EveryDamageIsADiagnostic) {
  NpyArray a{'i', 4, {3}, {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}};
  NpzFile f;
  f.entries.push_back({"in0", a});
  for (const std::string& good : {FormatNpz(f), DeflatedZip("in0.npy", FormatNpy(a))}) {
    for (size_t n = 0; n < good.size(); ++n) {
      DiagSink diags;
      EXPECT_FALSE(ParseNpz(good.substr(0, n), "a.npz", &diags)) << n;
      EXPECT_TRUE(diags.has_errors());
    }
    for (size_t n = 0; n < good.size(); ++n) {
      for (int bit : {0, 3, 7}) {
        std::string bad = good;
        bad[n] ^= 1 << bit;
        DiagSink diags;
        auto npz = ParseNpz(bad, "a.npz", &diags);  // some bits carry no meaning (dates)
        EXPECT_EQ(npz.has_value(), !diags.has_errors());
        if (npz && npz->Find("in0")) {
          EXPECT_EQ(npz->Find("in0")->data, a.data) << n;
        }
      }
    }
  }
}

Literal Expect(const NpyArray& a, Type type, Dims dims) {
  std::string error;
  auto l = LiteralFromArray(a, Shape::Array(type, std::move(dims)), &error);
  EXPECT_TRUE(l) << error;
  return l ? *l : Literal(Shape::Array(type, {}));
}

std::string Refused(const NpyArray& a, Type type, Dims dims) {
  std::string error;
  EXPECT_FALSE(LiteralFromArray(a, Shape::Array(type, std::move(dims)), &error));
  return error;
}

TEST(Arrays, TypesThatNumpyLacks) {
  EXPECT_EQ(Expect({'u', 2, {1}, {0x80, 0x3f}}, Type::kBF16, {1}).data<uint16_t>()[0], 0x3f80);
  EXPECT_EQ(Expect({'V', 2, {1}, {0x80, 0x3f}}, Type::kBF16, {1}).data<uint16_t>()[0], 0x3f80);
  EXPECT_EQ(Expect({'V', 1, {1}, {0x38}}, Type::kF8E4M3FN, {1}).bytes()[0], 0x38);
  EXPECT_EQ(Expect({'u', 1, {1}, {0x38}}, Type::kF8E5M2, {1}).bytes()[0], 0x38);
  EXPECT_EQ(Expect({'i', 1, {1}, {0xf8}}, Type::kS4, {1}).data<int8_t>()[0], -8);
  EXPECT_EQ(Expect({'V', 1, {1}, {0x08}}, Type::kS4, {1}).data<int8_t>()[0], -8);
  EXPECT_EQ(Expect({'b', 1, {2}, {0, 1}}, Type::kPred, {2}).bytes()[1], 1);
  EXPECT_EQ(Refused({'i', 1, {1}, {9}}, Type::kS4, {1}),
            "the array has values that s4 cannot hold");
}

TEST(Arrays, MessagesNameBothSides) {
  EXPECT_EQ(Refused({'i', 8, {2}, std::vector<uint8_t>(16)}, Type::kS32, {2}),
            "the array is int64[2]; s32[2] is read from int32");
  EXPECT_EQ(Refused({'f', 4, {2}, std::vector<uint8_t>(8)}, Type::kBF16, {2}),
            "the array is float32[2]; bf16[2] is read from uint16 (its bits)");
  EXPECT_EQ(Refused({'f', 4, {2, 1}, std::vector<uint8_t>(8)}, Type::kF32, {2}),
            "the array is float32[2,1], the program wants f32[2]");
}

TEST(Arrays, StoredAsTheOracleStoresThem) {
  auto kind = [](Type t) {
    NpyArray a = ArrayFromLiteral(Literal(Shape::Array(t, {2})));
    return std::string(1, a.kind) + std::to_string(a.item_bytes);
  };
  EXPECT_EQ(kind(Type::kBF16), "u2");
  EXPECT_EQ(kind(Type::kF8E5M2), "u1");
  EXPECT_EQ(kind(Type::kS4), "i1");
  EXPECT_EQ(kind(Type::kU4), "u1");
  EXPECT_EQ(kind(Type::kPred), "b1");
  EXPECT_EQ(kind(Type::kC64), "c8");
  EXPECT_EQ(kind(Type::kF16), "f2");
}

TEST(Files, MissingAndAtomic) {
  DiagSink diags;
  std::string text;
  EXPECT_FALSE(ReadFile("/nonexistent/x", &text, &diags));
  EXPECT_NE(diags.Render().find("E0300"), std::string::npos);
  EXPECT_FALSE(WriteFile("/nonexistent/x", "", &diags));
  EXPECT_NE(diags.Render().find("E0301"), std::string::npos);
  std::string path = testing::TempDir() + "/tpuc_io_test_file";
  DiagSink ok;
  ASSERT_TRUE(WriteFile(path, "one", &ok));
  ASSERT_TRUE(WriteFile(path, "two", &ok));
  ASSERT_TRUE(ReadFile(path, &text, &ok));
  EXPECT_EQ(text, "two");
  EXPECT_TRUE(SameFile(path, path));
  unlink(path.c_str());
}

}  // namespace
}  // namespace tpuc
