#include "osdn/core/hash.h"

#include <gtest/gtest.h>

#include <string>

#include "osdn/core/file.h"
#include "support/temp_dir.h"

namespace osdn {
namespace {

// Published values of the algorithms.
TEST(Hash, xxh3_of_nothing) {
  EXPECT_EQ(to_hex(xxh3_64("")), "2d06800538d394c2");
  EXPECT_EQ(to_hex(xxh3_128("")), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, sha256_of_the_standards_examples) {
  EXPECT_EQ(sha256(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    text[i] = static_cast<char>(i * 131 + (i >> 8));
  }
  return text;
}

// Around every size at which the algorithms change their ways.
TEST(Hash, pieces_give_what_the_whole_gives) {
  for (const std::size_t size : {0, 1, 3, 16, 17, 55, 56, 57, 63, 64, 65, 119,
                                 120, 128, 129, 240, 241, 1023, 5000}) {
    const std::string text = pattern(size);
    for (const std::size_t piece : {1, 7, 64, 100}) {
      Xxh3 xxh3;
      Sha256 sha;
      for (std::size_t at = 0; at < size; at += piece) {
        xxh3.update(std::string_view(text).substr(at, piece));
        sha.update(std::string_view(text).substr(at, piece));
      }
      EXPECT_EQ(xxh3.digest64(), xxh3_64(text)) << size << " by " << piece;
      EXPECT_EQ(xxh3.digest128(), xxh3_128(text)) << size << " by " << piece;
      EXPECT_EQ(to_hex(sha.digest()), sha256(text)) << size << " by " << piece;
    }
  }
}

TEST(Hash, a_digest_does_not_end_the_stream) {
  Sha256 sha;
  sha.update("ab");
  sha.digest();
  sha.update("c");
  EXPECT_EQ(to_hex(sha.digest()), sha256("abc"));
}

TEST(Hash, one_flipped_bit_changes_all_of_them) {
  std::string text = pattern(4096);
  const std::uint64_t before64 = xxh3_64(text);
  const Hash128 before128 = xxh3_128(text);
  const std::string before_sha = sha256(text);
  text[2000] = static_cast<char>(text[2000] ^ 1);
  EXPECT_NE(xxh3_64(text), before64);
  EXPECT_FALSE(xxh3_128(text) == before128);
  EXPECT_NE(sha256(text), before_sha);
}

TEST(Hash, of_files) {
  const test::TempDir folder;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{100}, (std::size_t{1} << 20),
        (std::size_t{1} << 20) + 3}) {
    const std::string text = pattern(size);
    write_file_atomic(folder / "a", text);
    EXPECT_EQ(xxh3_64_of_file(folder / "a"), xxh3_64(text));
    EXPECT_EQ(xxh3_128_of_file(folder / "a"), xxh3_128(text));
    EXPECT_EQ(sha256_of_file(folder / "a"), sha256(text));
  }
}

TEST(Hash, hexadecimal_keeps_leading_zeros) {
  EXPECT_EQ(to_hex(std::uint64_t{0xab}), "00000000000000ab");
  EXPECT_EQ(to_hex(Hash128{1, 2}), "00000000000000010000000000000002");
}

}  // namespace
}  // namespace osdn
