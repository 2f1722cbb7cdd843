target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i8 addrspace(4)* @llvm.amdgcn.dispatch.ptr()
declare i8 addrspace(4)* @llvm.amdgcn.implicitarg.ptr()
define amdgpu_kernel void @ids(i32 addrspace(1)* %out, i8 %no, i32 %factor) #0 {
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %packet = call i8 addrspace(4)* @llvm.amdgcn.dispatch.ptr()
  %at = getelementptr i8, i8 addrspace(4)* %packet, i64 4
  %at16 = bitcast i8 addrspace(4)* %at to i16 addrspace(4)*
  %size16 = load i16, i16 addrspace(4)* %at16
  %size = zext i16 %size16 to i32
  %implicit = call i8 addrspace(4)* @llvm.amdgcn.implicitarg.ptr()
  %first = bitcast i8 addrspace(4)* %implicit to i32 addrspace(4)*
  %hidden = load i32, i32 addrspace(4)* %first
  %base = mul i32 %group, %size
  %index = add i32 %base, %item
  %wide = zext i32 %index to i64
  %place = getelementptr i32, i32 addrspace(1)* %out, i64 %wide
  %product = mul i32 %index, %factor
  %shifted = shl i32 %hidden, 20
  %value = add i32 %product, %shifted
  store i32 %value, i32 addrspace(1)* %place
  ret void
}
attributes #0 = { "amdgpu-implicitarg-num-bytes"="56" "amdgpu-flat-work-group-size"="1,256" }
