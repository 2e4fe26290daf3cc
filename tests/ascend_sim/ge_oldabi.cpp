// The one function whose string is that of the C++ ABI before C++11.
#include <string>

// The text of the last failure, which the other files keep.
extern "C" const char* sim_ge_error();

namespace ge {

std::string GEGetErrorMsg() { return sim_ge_error(); }

}  // namespace ge
