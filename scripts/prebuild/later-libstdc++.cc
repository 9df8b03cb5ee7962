// Symbols that a host built with a later GCC expects of libstdc++, and that libstdc++ of GCC 10 does not have.
extern "C" [[noreturn]] void abort();

namespace std {

[[noreturn]] void __glibcxx_assert_fail(const char*, int, const char*, const char*) noexcept { abort(); }
[[noreturn]] void __throw_bad_array_new_length() { abort(); }

}  // namespace std
