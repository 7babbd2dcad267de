! SPDX-License-Identifier: BSD-3-Clause
!
! rwapi.h for Fortran 2018. The comments there say what the calls do. The names and the order of the arguments are those
! of C; what may be NULL there is optional here. Besides:
! - Buffers are arrays or scalars of any type, without a length of their own: lengths and offsets are in bytes. An
!   operation uses them until it is complete, so they must be contiguous, exist until then, and have the attribute
!   ASYNCHRONOUS or TARGET.
! - rwapi_default is the context of rwapi_init (NULL). Ranks, slots and positions count from 0.
! - Rights are rwapi_right_read and so on, because RWAPI_WRITE would be the call rwapi_write.
! - rwapi_alloc returns a c_ptr: c_f_pointer makes an array of it.
! - rwapi_error_text, rwapi_transport_name and rwapi_check are for Fortran only, and in librwapi_fortran.a.
module rwapi
  use, intrinsic :: iso_c_binding
  implicit none
  private :: copy

  integer(c_int), parameter :: rwapi_version_major = 0, rwapi_version_minor = 3

  integer(c_int), parameter :: rwapi_ok = 0, rwapi_err_invalid = -1, rwapi_err_state = -2, rwapi_err_range = -3, &
      rwapi_err_stale = -4, rwapi_err_foreign = -5, rwapi_err_node = -6, rwapi_err_rights = -7, rwapi_err_again = -8, &
      rwapi_err_timeout = -9, rwapi_err_peer = -10, rwapi_err_memory = -11, rwapi_err_transport = -12, &
      rwapi_err_start = -13, rwapi_err_unsupported = -14, rwapi_err_busy = -15
  integer(c_int), parameter :: rwapi_thread_single = 0, rwapi_thread_multiple = 1
  integer(c_int), parameter :: rwapi_death_go_on = 0, rwapi_death_report = 1
  integer(c_int), parameter :: rwapi_right_read = 1, rwapi_right_write = 2, rwapi_right_signal = 4, &
      rwapi_right_all = 7, rwapi_right_polled = 16
  integer(c_int), parameter :: rwapi_signal_set = 0, rwapi_signal_add = 1

  integer(c_int), parameter :: rwapi_wait_poll = 0, rwapi_wait_sleep = 1

  ! Kinds: integer(rwapi_id) :: id
  integer, parameter :: rwapi_id = c_int64_t, rwapi_counter = c_int64_t

  type(c_ptr), parameter :: rwapi_default = c_null_ptr

  type, bind(C) :: rwapi_net
    integer(c_int64_t) :: word(2) = 0
  end type

  type, bind(C) :: rwapi_small
    integer(c_int8_t) :: bytes(16) = 0
  end type

  ! The functions are bind(C): exchange(context, mine, bytes, all), barrier_begin(context), barrier_test(context).
  type, bind(C) :: rwapi_bootstrap
    type(c_ptr) :: context = c_null_ptr
    integer(c_int32_t) :: rank = 0, size = 0
    type(c_funptr) :: exchange = c_null_funptr, barrier_begin = c_null_funptr, barrier_test = c_null_funptr
  end type

  ! params%size = c_sizeof(params); bootstrap is the c_loc of a rwapi_bootstrap.
  type, bind(C) :: rwapi_params
    integer(c_size_t) :: size = 0
    integer(c_int) :: threads = 0
    integer(c_int32_t) :: slots = 0, operations = 0, credit = 0
    type(c_ptr) :: bootstrap = c_null_ptr
    integer(c_int) :: on_peer_death = 0
    integer(c_int) :: wait = 0
  end type

  ! local is the c_loc of a buffer.
  type, bind(C) :: rwapi_element
    type(rwapi_net) :: net
    integer(c_int64_t) :: offset = 0
    type(c_ptr) :: local = c_null_ptr
    integer(c_size_t) :: length = 0
  end type

  type, bind(C) :: rwapi_blocks
    integer(c_size_t) :: length = 0, count = 0
    integer(c_int64_t) :: stride = 0, local_stride = 0
  end type

  interface
    type(c_ptr) function rwapi_strerror(error) bind(C)
      import
      integer(c_int), value :: error
    end function

    ! ---- The paper's ten calls ----

    integer(c_int) function rwapi_init(argc, argv) bind(C)
      import
      integer(c_int), intent(inout), optional :: argc
      type(c_ptr), intent(inout), optional :: argv
    end function

    integer(c_int) function rwapi_finalize() bind(C)
      import
    end function

    integer(c_int) function rwapi_size() bind(C)
      import
    end function

    integer(c_int) function rwapi_rank() bind(C)
      import
    end function

    type(c_ptr) function rwapi_alloc(size, net) bind(C)
      import
      integer(c_size_t), value :: size
      type(rwapi_net), intent(out) :: net
    end function

    integer(c_int) function rwapi_free(memory) bind(C)
      import
      type(c_ptr), value :: memory
    end function

    type(rwapi_net) function rwapi_net_add(net, bytes) bind(C)
      import
      type(rwapi_net), value :: net
      integer(c_size_t), value :: bytes
    end function

    integer(c_int) function rwapi_net_node(net) bind(C)
      import
      type(rwapi_net), value :: net
    end function

    integer(c_int) function rwapi_send(node, small) bind(C)
      import
      integer(c_int), value :: node
      type(rwapi_small), intent(in) :: small
    end function

    integer(c_int) function rwapi_receive(node, small) bind(C)
      import
      integer(c_int), intent(out) :: node
      type(rwapi_small), intent(out) :: small
    end function

    integer(rwapi_id) function rwapi_write(node, from, to, size) bind(C)
      import
      integer(c_int), value :: node
      type(rwapi_net), value :: from, to
      integer(c_size_t), value :: size
    end function

    integer(c_int) function rwapi_issent(id) bind(C)
      import
      integer(rwapi_id), value :: id
    end function

    ! ---- Contexts ----

    integer(c_int) function rwapi_init_params(params) bind(C)
      import
      type(rwapi_params), intent(in), optional :: params
    end function

    integer(c_int) function rwapi_context_create(params, context) bind(C)
      import
      type(rwapi_params), intent(in), optional :: params
      type(c_ptr), intent(out) :: context
    end function

    integer(c_int) function rwapi_context_destroy(context) bind(C)
      import
      type(c_ptr), value :: context
    end function

    integer(c_int) function rwapi_context_size(context) bind(C)
      import
      type(c_ptr), value :: context
    end function

    integer(c_int) function rwapi_context_rank(context) bind(C)
      import
      type(c_ptr), value :: context
    end function

    integer(c_int) function rwapi_context_send(context, node, small) bind(C)
      import
      type(c_ptr), value :: context
      integer(c_int), value :: node
      type(rwapi_small), intent(in) :: small
    end function

    integer(c_int) function rwapi_context_receive(context, node, small) bind(C)
      import
      type(c_ptr), value :: context
      integer(c_int), intent(out) :: node
      type(rwapi_small), intent(out) :: small
    end function

    type(c_ptr) function rwapi_context_alloc(context, size, net) bind(C)
      import
      type(c_ptr), value :: context
      integer(c_size_t), value :: size
      type(rwapi_net), intent(out) :: net
    end function

    integer(c_int) function rwapi_context_free(context, memory) bind(C)
      import
      type(c_ptr), value :: context, memory
    end function

    integer(rwapi_id) function rwapi_context_write(context, node, from, to, size) bind(C)
      import
      type(c_ptr), value :: context
      integer(c_int), value :: node
      type(rwapi_net), value :: from, to
      integer(c_size_t), value :: size
    end function

    type(c_ptr) function rwapi_transport(context) bind(C)
      import
      type(c_ptr), value :: context
    end function

    ! ---- Memory ----

    integer(c_int) function rwapi_register(context, memory, length, rights, net) bind(C)
      import
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: memory
      type(c_ptr), value :: context
      type(*), asynchronous :: memory(*)
      integer(c_size_t), value :: length
      integer(c_int), value :: rights
      type(rwapi_net), intent(out) :: net
    end function

    integer(c_int) function rwapi_deregister(context, net) bind(C)
      import
      type(c_ptr), value :: context
      type(rwapi_net), value :: net
    end function

    integer(c_int) function rwapi_share(context, local, peers) bind(C)
      import
      type(c_ptr), value :: context
      type(rwapi_net), value :: local
      type(rwapi_net), intent(inout) :: peers(*)
    end function

    integer(c_int) function rwapi_barrier(context) bind(C)
      import
      type(c_ptr), value :: context
    end function

    ! ---- Write and read ----

    integer(c_int) function rwapi_put(context, net, offset, local, length, id) bind(C)
      import
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: local
      type(c_ptr), value :: context
      type(rwapi_net), value :: net
      integer(c_int64_t), value :: offset
      type(*), intent(in), asynchronous :: local(*)
      integer(c_size_t), value :: length
      integer(rwapi_id), intent(out), optional :: id
    end function

    integer(c_int) function rwapi_get(context, net, offset, local, length, id) bind(C)
      import
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: local
      type(c_ptr), value :: context
      type(rwapi_net), value :: net
      integer(c_int64_t), value :: offset
      type(*), asynchronous :: local(*)
      integer(c_size_t), value :: length
      integer(rwapi_id), intent(out), optional :: id
    end function

    integer(c_int) function rwapi_put_list(context, elements, n, id) bind(C)
      import
      type(c_ptr), value :: context
      type(rwapi_element), intent(in) :: elements(*)
      integer(c_size_t), value :: n
      integer(rwapi_id), intent(out), optional :: id
    end function

    integer(c_int) function rwapi_put_list_notify(context, elements, n, slot, value, id) bind(C)
      import
      type(c_ptr), value :: context
      type(rwapi_element), intent(in) :: elements(*)
      integer(c_size_t), value :: n
      integer(c_int32_t), value :: slot
      integer(c_int64_t), value :: value
      integer(rwapi_id), intent(out), optional :: id
    end function

    integer(c_int) function rwapi_put_strided(context, net, offset, local, blocks, id) bind(C)
      import
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: local
      type(c_ptr), value :: context
      type(rwapi_net), value :: net
      integer(c_int64_t), value :: offset
      type(*), intent(in), asynchronous :: local(*)
      type(rwapi_blocks), intent(in) :: blocks
      integer(rwapi_id), intent(out), optional :: id
    end function

    integer(c_int) function rwapi_put_strided_notify(context, net, offset, local, blocks, slot, value, id) bind(C)
      import
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: local
      type(c_ptr), value :: context
      type(rwapi_net), value :: net
      integer(c_int64_t), value :: offset
      type(*), intent(in), asynchronous :: local(*)
      type(rwapi_blocks), intent(in) :: blocks
      integer(c_int32_t), value :: slot
      integer(c_int64_t), value :: value
      integer(rwapi_id), intent(out), optional :: id
    end function

    integer(c_int) function rwapi_get_notify(context, net, offset, local, length, slot, value, id) bind(C)
      import
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: local
      type(c_ptr), value :: context
      type(rwapi_net), value :: net
      integer(c_int64_t), value :: offset
      type(*), asynchronous :: local(*)
      integer(c_size_t), value :: length
      integer(c_int32_t), value :: slot
      integer(c_int64_t), value :: value
      integer(rwapi_id), intent(out), optional :: id
    end function

    integer(c_int) function rwapi_fetch_add(context, net, offset, value, result, id) bind(C)
      import
      type(c_ptr), value :: context
      type(rwapi_net), value :: net
      integer(c_int64_t), value :: offset, value
      integer(c_int64_t), intent(inout), asynchronous, optional :: result
      integer(rwapi_id), intent(out), optional :: id
    end function

    integer(c_int) function rwapi_compare_swap(context, net, offset, compare, value, result, id) bind(C)
      import
      type(c_ptr), value :: context
      type(rwapi_net), value :: net
      integer(c_int64_t), value :: offset, compare, value
      integer(c_int64_t), intent(inout), asynchronous, optional :: result
      integer(rwapi_id), intent(out), optional :: id
    end function

    ! ---- Notification ----

    integer(c_int) function rwapi_put_signal(context, net, offset, local, length, signal_offset, value, operation, id) &
        bind(C)
      import
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: local
      type(c_ptr), value :: context
      type(rwapi_net), value :: net
      integer(c_int64_t), value :: offset
      type(*), intent(in), asynchronous :: local(*)
      integer(c_size_t), value :: length
      integer(c_int64_t), value :: signal_offset, value
      integer(c_int), value :: operation
      integer(rwapi_id), intent(out), optional :: id
    end function

    integer(c_int) function rwapi_put_notify(context, net, offset, local, length, slot, value, id) bind(C)
      import
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: local
      type(c_ptr), value :: context
      type(rwapi_net), value :: net
      integer(c_int64_t), value :: offset
      type(*), intent(in), asynchronous :: local(*)
      integer(c_size_t), value :: length
      integer(c_int32_t), value :: slot
      integer(c_int64_t), value :: value
      integer(rwapi_id), intent(out), optional :: id
    end function

    integer(c_int) function rwapi_put_count(context, net, offset, local, length, id) bind(C)
      import
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: local
      type(c_ptr), value :: context
      type(rwapi_net), value :: net
      integer(c_int64_t), value :: offset
      type(*), intent(in), asynchronous :: local(*)
      integer(c_size_t), value :: length
      integer(rwapi_id), intent(out), optional :: id
    end function

    integer(c_int64_t) function rwapi_signal_read(word) bind(C)
      import
      integer(c_int64_t), intent(in), asynchronous :: word
    end function

    integer(c_int) function rwapi_signal_wait(context, word, value, timeout) bind(C)
      import
      type(c_ptr), value :: context
      integer(c_int64_t), intent(in), asynchronous :: word
      integer(c_int64_t), value :: value, timeout
    end function

    integer(c_int) function rwapi_notify_test(context, slot, value) bind(C)
      import
      type(c_ptr), value :: context
      integer(c_int32_t), value :: slot
      integer(c_int64_t), intent(inout), optional :: value
    end function

    integer(c_int) function rwapi_notify_wait(context, slot, value, timeout) bind(C)
      import
      type(c_ptr), value :: context
      integer(c_int32_t), value :: slot
      integer(c_int64_t), intent(inout), optional :: value
      integer(c_int64_t), value :: timeout
    end function

    integer(c_int) function rwapi_notify_waitsome(context, first, n, slot, timeout) bind(C)
      import
      type(c_ptr), value :: context
      integer(c_int32_t), value :: first, n
      integer(c_int32_t), intent(inout) :: slot
      integer(c_int64_t), value :: timeout
    end function

    integer(c_int) function rwapi_notify_reset(context, slot, value) bind(C)
      import
      type(c_ptr), value :: context
      integer(c_int32_t), value :: slot
      integer(c_int64_t), intent(inout), optional :: value
    end function

    integer(c_int) function rwapi_counter_create(context, counter) bind(C)
      import
      type(c_ptr), value :: context
      integer(rwapi_counter), intent(out) :: counter
    end function

    integer(c_int) function rwapi_counter_free(context, counter) bind(C)
      import
      type(c_ptr), value :: context
      integer(rwapi_counter), value :: counter
    end function

    integer(c_int) function rwapi_counter_attach(context, counter, net, expected) bind(C)
      import
      type(c_ptr), value :: context
      integer(rwapi_counter), value :: counter
      type(rwapi_net), value :: net
      integer(c_int64_t), value :: expected
    end function

    integer(c_int) function rwapi_counter_detach(context, net) bind(C)
      import
      type(c_ptr), value :: context
      type(rwapi_net), value :: net
    end function

    integer(c_int) function rwapi_counter_set(context, counter, expected) bind(C)
      import
      type(c_ptr), value :: context
      integer(rwapi_counter), value :: counter
      integer(c_int64_t), value :: expected
    end function

    integer(c_int) function rwapi_counter_test(context, counter, writes, bytes) bind(C)
      import
      type(c_ptr), value :: context
      integer(rwapi_counter), value :: counter
      integer(c_int64_t), intent(inout), optional :: writes, bytes
    end function

    integer(c_int) function rwapi_counter_wait(context, counter, timeout) bind(C)
      import
      type(c_ptr), value :: context
      integer(rwapi_counter), value :: counter
      integer(c_int64_t), value :: timeout
    end function

    integer(c_int) function rwapi_counter_reset(context, counter) bind(C)
      import
      type(c_ptr), value :: context
      integer(rwapi_counter), value :: counter
    end function

    ! ---- Completion and progress ----

    integer(c_int) function rwapi_test(context, id) bind(C)
      import
      type(c_ptr), value :: context
      integer(rwapi_id), value :: id
    end function

    integer(c_int) function rwapi_wait(context, id, timeout) bind(C)
      import
      type(c_ptr), value :: context
      integer(rwapi_id), value :: id
      integer(c_int64_t), value :: timeout
    end function

    integer(c_int) function rwapi_wait_any(context, ids, n, index, timeout) bind(C)
      import
      type(c_ptr), value :: context
      integer(rwapi_id), intent(in) :: ids(*)
      integer(c_size_t), value :: n
      integer(c_size_t), intent(inout) :: index
      integer(c_int64_t), value :: timeout
    end function

    integer(c_int) function rwapi_wait_all(context, ids, n, timeout) bind(C)
      import
      type(c_ptr), value :: context
      integer(rwapi_id), intent(in) :: ids(*)
      integer(c_size_t), value :: n
      integer(c_int64_t), value :: timeout
    end function

    integer(c_int) function rwapi_flush(context, node, id) bind(C)
      import
      type(c_ptr), value :: context
      integer(c_int), value :: node
      integer(rwapi_id), intent(out), optional :: id
    end function

    integer(c_int) function rwapi_flush_all(context, id) bind(C)
      import
      type(c_ptr), value :: context
      integer(rwapi_id), intent(out), optional :: id
    end function

    integer(c_int) function rwapi_fence(context, node) bind(C)
      import
      type(c_ptr), value :: context
      integer(c_int), value :: node
    end function

    integer(c_int) function rwapi_progress(context) bind(C)
      import
      type(c_ptr), value :: context
    end function

    integer(c_int) function rwapi_event_fd(context, fd) bind(C)
      import
      type(c_ptr), value :: context
      integer(c_int), intent(inout) :: fd
    end function

    integer(c_int) function rwapi_arm(context) bind(C)
      import
      type(c_ptr), value :: context
    end function

    integer(c_int) function rwapi_peer_status(context, node) bind(C)
      import
      type(c_ptr), value :: context
      integer(c_int), value :: node
    end function
  end interface

contains

  ! What rwapi_strerror says.
  function rwapi_error_text(error) result(said)
    integer(c_int), intent(in) :: error
    character(len=:), allocatable :: said
    type(c_ptr) :: text
    text = rwapi_strerror(error)
    call copy(text, said)
  end function

  ! What rwapi_transport says; empty without a context.
  function rwapi_transport_name(context) result(name)
    type(c_ptr), intent(in), optional :: context
    character(len=:), allocatable :: name
    type(c_ptr) :: text
    text = rwapi_default
    if (present(context)) text = context
    text = rwapi_transport(text)
    call copy(text, name)
  end function

  ! Ends the program if the result of a call is an error, with its text.
  subroutine rwapi_check(result, what)
    integer(c_int), intent(in) :: result
    character(len=*), intent(in), optional :: what
    character(len=:), allocatable :: message
    if (result >= 0) return
    message = rwapi_error_text(result)
    if (present(what)) message = what // ': ' // message
    error stop message
  end subroutine

  subroutine copy(from, to)
    type(c_ptr), value :: from
    character(len=:), allocatable, intent(out) :: to
    character(kind=c_char), pointer :: bytes(:)
    interface
      integer(c_size_t) function strlen(string) bind(C)
        import
        type(c_ptr), value :: string
      end function
    end interface
    integer(c_size_t) :: length, i
    length = 0
    if (c_associated(from)) length = strlen(from)
    allocate (character(len=length) :: to)
    if (length == 0) return
    call c_f_pointer(from, bytes, [length])
    do i = 1, length
      to(i:i) = bytes(i)
    end do
  end subroutine
end module
