! SPDX-License-Identifier: BSD-3-Clause
!
! A job of three processes with the module rwapi: each kind of call once, in the right way and in the wrong one.
program job
  use rwapi
  implicit none
  integer(c_int64_t), parameter :: limit = 20000000
  integer(c_size_t), parameter :: words = 512
  ! Byte offsets in the memory of each node: a signal word, a sum, numbers, text.
  integer(c_int64_t), parameter :: signal = 0, sum_of_all = 8, numbers = 1024, greeting = 2048
  integer(c_int) :: rank, nodes, next, before
  type(rwapi_params) :: params
  type(c_ptr) :: another

  call expect(index(rwapi_error_text(rwapi_err_timeout), 'time limit') > 0, 'the text of an error')
  call expect(rwapi_rank() == rwapi_err_state, 'no context yet')
  params%size = 1
  call expect(rwapi_init_params(params) == rwapi_err_invalid, 'a wrong size of the parameters')
  params%size = c_sizeof(params)
  params%slots = 64
  call check(rwapi_init_params(params), 'rwapi_init_params')
  call expect(rwapi_init() == rwapi_err_state, 'rwapi_init twice')
  call run(rwapi_default)
  params%threads = rwapi_thread_multiple
  params%wait = rwapi_wait_sleep
  call check(rwapi_context_create(params, another), 'rwapi_context_create')
  call run(another)
  call check(rwapi_context_destroy(another), 'rwapi_context_destroy')
  call expect(rwapi_context_rank(another) == rwapi_err_state, 'a context that is gone')
  call check(rwapi_finalize(), 'rwapi_finalize')
  print '(a,i0,a)', 'node ', rank, ': right'

contains

  subroutine run(context)
    type(c_ptr), intent(in) :: context
    type(rwapi_net) :: mine, of_array
    type(rwapi_net), allocatable :: nets(:), of_arrays(:)
    type(c_ptr) :: memory
    integer(c_int64_t), pointer :: word(:)
    real(c_double), asynchronous, target :: matrix(4, 5)
    real(c_double), asynchronous :: column(4)
    type(rwapi_element) :: elements(2)
    real(c_double), asynchronous :: value
    character(len=64), asynchronous :: text
    character(len=64), pointer :: got
    type(rwapi_small) :: small
    integer(rwapi_id) :: id, ids(2)
    integer(c_int64_t) :: latest
    integer(c_int64_t), asynchronous :: found
    integer(c_int32_t) :: slot
    integer(c_size_t) :: position
    integer(c_int) :: node, fd, i, received, answer

    rank = rwapi_context_rank(context)
    nodes = rwapi_context_size(context)
    next = mod(rank + 1, nodes)
    before = mod(rank + nodes - 1, nodes)
    memory = rwapi_context_alloc(context, 8 * words, mine)
    call expect(c_associated(memory), 'rwapi_context_alloc')
    call c_f_pointer(memory, word, [words])
    allocate (nets(0:nodes - 1), of_arrays(0:nodes - 1))
    call check(rwapi_share(context, mine, nets), 'rwapi_share')
    call expect(rwapi_net_node(nets(next)) == next, 'rwapi_net_node')

    ! Text, with a slot.
    write (text, '(a,i0,a)') 'node ', rank, ' says hello'
    call check(rwapi_put_notify(context, nets(next), greeting, text, 64_c_size_t, 5, 40_c_int64_t + rank, id), &
        'put_notify')
    call check(rwapi_notify_waitsome(context, 0, 10, slot, limit), 'notify_waitsome')
    call expect(slot == 5, 'the slot')
    call check(rwapi_notify_wait(context, 5, latest, limit), 'notify_wait')
    call expect(latest == 40 + before, 'the value of the slot')
    call c_f_pointer(transfer(transfer(memory, 0_c_intptr_t) + greeting, c_null_ptr), got)
    call check(rwapi_wait(context, id, limit), 'wait')
    write (text, '(a,i0,a)') 'node ', before, ' says hello'
    call expect(got == text, 'the text')
    call check(rwapi_notify_test(context, 6, answer), 'notify_test')
    call expect(answer == 0, 'a slot that is not set')
    call expect(rwapi_notify_reset(context, 5) == 1, 'notify_reset')

    ! Signals.
    do i = 1, 2
      call check(rwapi_put_signal(context, nets(next), 0_c_int64_t, text, 0_c_size_t, signal, 4_c_int64_t, &
          rwapi_signal_add), 'put_signal')
    end do
    call check(rwapi_signal_wait(context, word(1), 8_c_int64_t, limit), 'signal_wait')
    call expect(rwapi_signal_read(word(1)) == 8, 'the word')

    ! An array, and a scalar.
    call check(rwapi_barrier(context), 'barrier')
    matrix = reshape([(100 * rank + i, i = 1, 20)], [4, 5])
    value = rank + 0.5_c_double
    call check(rwapi_put(context, rwapi_net_add(nets(next), int(numbers, c_size_t)), 0_c_int64_t, matrix, &
        c_sizeof(matrix), ids(1)), 'put')
    call check(rwapi_put_notify(context, nets(next), numbers + 160, value, c_sizeof(value), 7, 1_c_int64_t, ids(2)), &
        'put_notify')
    call check(rwapi_notify_wait(context, 7, timeout=limit), 'notify_wait')
    call expect(abs(transfer(word(numbers / 8 + 20), value) - (100 * before + 20)) < 0.1, 'the array')
    call expect(abs(transfer(word(numbers / 8 + 21), value) - (before + 0.5)) < 0.1, 'the scalar')
    call check(rwapi_wait_any(context, ids, 2_c_size_t, position, limit), 'wait_any')
    call expect(position < 2, 'the position')
    call check(rwapi_wait_all(context, ids, 2_c_size_t, limit), 'wait_all')
    call check(rwapi_test(context, ids(1), answer), 'test')
    call expect(answer == 1, 'it is complete')

    ! A column is contiguous; it comes from the next node, where this one has put it.
    call check(rwapi_flush(context, next, id), 'flush')
    call check(rwapi_wait(context, id, limit), 'wait')
    column = 0
    call check(rwapi_get(context, nets(next), numbers + 32, column, 32_c_size_t, id), 'get')
    call check(rwapi_wait(context, id, limit), 'wait')
    call expect(all(abs(column - matrix(:, 2)) < 0.1), 'what was read')

    ! The first row of a matrix, which is strided here, and contiguous at the peer; then single elements.
    matrix = reshape([(1000 * rank + i, i = 1, 20)], [4, 5])
    call check(rwapi_barrier(context), 'barrier')
    call check(rwapi_put_strided(context, nets(next), numbers, matrix, &
        rwapi_blocks(8_c_size_t, 5_c_size_t, 8_c_int64_t, 32_c_int64_t), ids(2)), 'put_strided')
    call check(rwapi_put_notify(context, nets(next), 0_c_int64_t, value, 0_c_size_t, 8, 1_c_int64_t), 'put_notify')
    call check(rwapi_notify_wait(context, 8, timeout=limit), 'notify_wait')
    call expect(abs(transfer(word(numbers / 8 + 2), value) - (1000 * before + 5)) < 0.1, 'the row')
    elements = [rwapi_element(nets(next), numbers + 400, c_loc(matrix(1, 1)), 8_c_size_t), &
        rwapi_element(nets(next), numbers + 800, c_loc(matrix(4, 5)), 8_c_size_t)]
    call check(rwapi_put_list(context, elements, 2_c_size_t, ids(1)), 'put_list')
    call check(rwapi_put_notify(context, nets(next), 0_c_int64_t, value, 0_c_size_t, 9, 3_c_int64_t), 'put_notify')
    call check(rwapi_notify_wait(context, 9, latest, limit), 'notify_wait')
    call expect(abs(transfer(word(numbers / 8 + 101), value) - (1000 * before + 20)) < 0.1, 'the element')
    call expect(latest == 3, 'the value')
    call check(rwapi_wait_all(context, ids, 2_c_size_t, limit), 'wait_all')
    call check(rwapi_flush(context, next, id), 'flush')
    call check(rwapi_wait(context, id, limit), 'wait')
    matrix(4, 5) = 0
    call check(rwapi_get_list(context, elements, 2_c_size_t, id), 'get_list')
    call check(rwapi_wait(context, id, limit), 'wait')
    call expect(abs(matrix(4, 5) - (1000 * rank + 20)) < 0.1, 'the element that was read')
    matrix(1, :) = 0
    call check(rwapi_get_strided(context, nets(next), numbers, matrix, &
        rwapi_blocks(8_c_size_t, 5_c_size_t, 8_c_int64_t, 32_c_int64_t), id), 'get_strided')
    call check(rwapi_wait(context, id, limit), 'wait')
    call expect(abs(matrix(1, 2) - (1000 * rank + 5)) < 0.1, 'the row that was read')

    ! Atomic operations: the nodes add 1, 2, and 3.
    call check(rwapi_fetch_add(context, nets(0), sum_of_all, 1_c_int64_t + rank, id=id), 'fetch_add')
    call check(rwapi_wait(context, id, limit), 'wait')
    call check(rwapi_barrier(context), 'barrier')
    call check(rwapi_compare_swap(context, nets(0), sum_of_all, 6_c_int64_t, 6_c_int64_t, found, id), 'compare_swap')
    call check(rwapi_wait(context, id, limit), 'wait')
    call expect(found == 6, 'the sum')

    ! A small message has an address.
    small = transfer(nets(rank), small)
    call check(rwapi_context_send(context, next, small), 'send')
    do
      received = rwapi_context_receive(context, node, small)
      if (received /= 0) exit
    end do
    call expect(received == 1 .and. node == before, 'receive')
    call expect(rwapi_net_node(transfer(small, mine)) == before, 'the address in a small message')

    ! An array of the program.
    matrix = 0
    call check(rwapi_register(context, matrix, c_sizeof(matrix), rwapi_right_write, of_array), 'register')
    call check(rwapi_share(context, of_array, of_arrays), 'share')
    call check(rwapi_put_notify(context, of_arrays(next), 8_c_int64_t, value, 8_c_size_t, 1, 1_c_int64_t), 'put_notify')
    call check(rwapi_notify_wait(context, 1, timeout=limit), 'notify_wait')
    call expect(rwapi_notify_reset(context, 1) == 1, 'notify_reset')
    call expect(abs(matrix(2, 1) - (before + 0.5)) < 0.1, 'the registered array')
    call check(rwapi_flush_all(context, id), 'flush_all')
    call check(rwapi_wait(context, id, limit), 'wait')
    call check(rwapi_barrier(context), 'barrier')
    call check(rwapi_deregister(context, of_array), 'deregister')

    call check(rwapi_event_fd(context, fd), 'event_fd')
    received = rwapi_arm(context)
    call expect(received == rwapi_ok .or. received == rwapi_err_busy, 'arm')
    call check(rwapi_progress(context), 'progress')
    call check(rwapi_fence(context, next), 'fence')
    call expect(rwapi_peer_status(context, next) == 0, 'peer_status')

    ! Mistakes.
    call expect(rwapi_notify_wait(context, 6, timeout=1000_c_int64_t) == rwapi_err_timeout, 'a time limit')
    call expect(rwapi_put(context, nets(next), 8 * words, value, 8_c_size_t) == rwapi_err_range, 'out of bounds')
    call expect(rwapi_put(context, rwapi_net_add(nets(next), huge(0_c_size_t)), 0_c_int64_t, value, 8_c_size_t) &
        == rwapi_err_range, 'far out of bounds')
    call expect(rwapi_put(context, rwapi_net(), 0_c_int64_t, value, 8_c_size_t) == rwapi_err_foreign, 'no address')
    call expect(rwapi_context_send(context, nodes, small) == rwapi_err_node, 'no node')
    call expect(rwapi_notify_test(context, 64, answer) == rwapi_err_range, 'no slot')

    call check(rwapi_barrier(context), 'barrier')
    call check(rwapi_deregister(context, mine), 'free')
    call check(rwapi_barrier(context), 'barrier')
  end subroutine

  subroutine check(result, what)
    integer(c_int), intent(in) :: result
    character(len=*), intent(in) :: what
    call rwapi_check(result, 'job.f90: ' // what)
  end subroutine

  subroutine expect(is_so, what)
    logical, intent(in) :: is_so
    character(len=*), intent(in) :: what
    if (.not. is_so) error stop 'job.f90: ' // what
  end subroutine
end program
