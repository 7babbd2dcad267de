! SPDX-License-Identifier: BSD-3-Clause
!
! A coarray program that checks all that it receives. Each image prints "coarray: image I of N is right".
program verify
  use iso_fortran_env, only: event_type, lock_type, atomic_int_kind, error_unit
  implicit none
  integer, parameter :: rounds = 5, longest = 20000
  integer :: me, images, next, previous
  integer, allocatable :: line(:)[:]
  double precision, allocatable :: plane(:, :)[:]
  integer :: counter[*]
  integer(atomic_int_kind) :: word[*]
  type(event_type) :: filled[*], emptied[*]
  type(lock_type) :: lock[*]

  me = this_image()
  images = num_images()
  next = mod(me, images) + 1
  previous = mod(me + images - 2, images) + 1
  allocate (line(longest)[*])
  allocate (plane(60, 40)[*])
  call slices()
  call planes()
  call events()
  call neighbours()
  call exclusive()
  call atomics()
  call collectives()
  sync all
  print '(a, i0, a, i0, a)', 'coarray: image ', me, ' of ', images, ' is right'

contains

  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    write (error_unit, '(3a, i0)') 'coarray: ', what, ': image ', me
    error stop 1
  end subroutine check

  elemental integer function value_of(from, round, i)
    integer, intent(in) :: from, round, i
    value_of = from * 1000003 + round * 7919 + i
  end function value_of

  ! Puts to the next image and gets from it: whole ranges, and every third element.
  subroutine slices()
    integer, parameter :: lengths(7) = [1, 2, 63, 1000, 2049, 16385, longest]
    integer, allocatable :: got(:)
    integer :: k, i, n
    do k = 1, size(lengths)
      n = lengths(k)
      line = -1
      sync all
      line(1:n)[next] = [(value_of(me, k, i), i = 1, n)]
      sync all
      call check(all(line(1:n) == [(value_of(previous, k, i), i = 1, n)]), 'a put is wrong')
      call check(all(line(n + 1:) == -1), 'a put wrote too much')
      got = line(1:n)[next]
      call check(all(got == [(value_of(me, k, i), i = 1, n)]), 'a get is wrong')
      sync all
      if (n < 3 .or. n > 3000) cycle
      line = -1
      sync all
      line(1:n:3)[next] = [(value_of(me, -k, i), i = 1, n, 3)]
      sync all
      call check(all(line(1:n:3) == [(value_of(previous, -k, i), i = 1, n, 3)]), 'a strided put is wrong')
      call check(all(line(2:n:3) == -1) .and. all(line(3:n:3) == -1), 'a strided put wrote between')
      got = line(1:n:3)[next]
      call check(all(got == [(value_of(me, -k, i), i = 1, n, 3)]), 'a strided get is wrong')
      sync all
    end do
  end subroutine slices

  ! Rows and columns of a matrix, as a halo exchange has them.
  subroutine planes()
    integer :: round, i
    do round = 1, rounds
      plane = 0
      sync all
      plane(:, 1)[next] = [(dble(value_of(me, round, i)), i = 1, size(plane, 1))]
      plane(3, 2:)[next] = [(dble(-value_of(me, round, i)), i = 2, size(plane, 2))]
      sync all
      call check(all(plane(:, 1) == [(dble(value_of(previous, round, i)), i = 1, size(plane, 1))]), 'a column is wrong')
      call check(all(plane(3, 2:) == [(dble(-value_of(previous, round, i)), i = 2, size(plane, 2))]), 'a row is wrong')
      call check(all(plane(4:, 2:) == 0), 'the rest has changed')
      sync all
    end do
  end subroutine planes

  ! Who sees the event sees the data.
  subroutine events()
    integer :: round, n, i, posts
    do round = 1, rounds
      n = 1 + mod(round * 3777, 20000)
      line(1:n)[next] = [(value_of(me, round, i), i = 1, n)]
      event post (filled[next])
      do
        call event_query(filled, posts)
        if (posts >= 1) exit
        call move_on()
      end do
      event wait (filled)
      call check(all(line(1:n) == [(value_of(previous, round, i), i = 1, n)]), 'an event came before its data')
      event post (emptied[previous])
      do
        call event_query(emptied, posts)
        if (posts >= 1) exit
        call move_on()
      end do
      event wait (emptied)
    end do
    do i = 1, 3
      event post (filled[next])
    end do
    do
      call event_query(filled, posts)
      if (posts >= 3) exit
      call move_on()
    end do
    event wait (filled, until_count=3)
    call event_query(filled, posts)
    call check(posts == 0, 'an event counts wrong')
    sync all
  end subroutine events

  ! While an image waits, others must reach its memory by atomics, which UCX does by messages if the device lacks some of
  ! them. OpenCoarrays 2.10 does not move messages on in event wait, over any transport; an atomic of the waiting image does.
  subroutine move_on()
    integer(atomic_int_kind) :: seen
    call atomic_ref(seen, word[next])
  end subroutine move_on

  ! sync images with both neighbours, in place of sync all.
  subroutine neighbours()
    integer :: round
    counter = 0
    sync all
    do round = 1, rounds
      counter[next] = round * 100 + me
      if (next == previous) then
        if (next /= me) sync images(next)
      else
        sync images([previous, next])
      end if
      call check(counter == round * 100 + previous, 'sync images let an image through')
      if (next == previous) then
        if (next /= me) sync images(next)
      else
        sync images([previous, next])
      end if
    end do
    sync all
  end subroutine neighbours

  ! A counter of the first image, changed under a lock and in a critical section.
  ! Image 1, where the locks are, only waits: OpenCoarrays makes no progress while an image waits for a lock of its own,
  ! and the image that holds the lock may need this progress to give it back.
  subroutine exclusive()
    integer :: round, seen
    counter = 0
    sync all
    do round = 1, merge(0, rounds, me == 1)
      lock (lock[1])
      seen = counter[1]
      counter[1] = seen + 1
      unlock (lock[1])
    end do
    sync all
    call check(counter[1] == rounds * (images - 1), 'a change under a lock was lost')
    sync all
    do round = 1, merge(0, rounds, me == 1)
      critical
        seen = counter[1]
        counter[1] = seen + 1
      end critical
    end do
    sync all
    call check(counter[1] == 2 * rounds * (images - 1), 'a change in a critical section was lost')
    sync all
  end subroutine exclusive

  subroutine atomics()
    integer(atomic_int_kind) :: old, seen
    integer :: round
    call atomic_define(word, 0_atomic_int_kind)
    sync all
    do round = 1, rounds
      call atomic_add(word[1], 1_atomic_int_kind)
      call atomic_fetch_add(word[1], 2_atomic_int_kind, old)
      call check(old >= 1, 'atomic_fetch_add')
      do
        call atomic_ref(seen, word[1])
        call atomic_cas(word[1], old, seen, seen + 3_atomic_int_kind)
        if (old == seen) exit
      end do
    end do
    sync all
    call atomic_ref(seen, word[1])
    call check(seen == 6 * rounds * images, 'an atomic was lost')
    sync all
  end subroutine atomics

  subroutine collectives()
    integer :: round, n, i, root
    double precision, allocatable :: values(:)
    integer, allocatable :: numbers(:)
    do round = 1, rounds
      n = 1 + mod(round * 997, 5000)
      root = mod(round, images) + 1
      values = [(dble(me + i), i = 1, n)]
      call co_sum(values)
      call check(all(values == [(dble(images * (images + 1) / 2 + images * i), i = 1, n)]), 'co_sum')
      numbers = [(mod(me * 7 + i, 11), i = 1, n)]
      call co_max(numbers)
      call check(all(numbers == [(maxval([(mod(root * 7 + i, 11), root = 1, images)]), i = 1, n)]), 'co_max')
      root = mod(round, images) + 1
      numbers = value_of(me, round, [(i, i = 1, n)])
      call co_broadcast(numbers, source_image=root)
      call check(all(numbers == value_of(root, round, [(i, i = 1, n)])), 'co_broadcast')
      values = [(dble(me * i), i = 1, n)]
      call co_min(values, result_image=root)
      if (me == root) call check(all(values == [(dble(i), i = 1, n)]), 'co_min')
    end do
  end subroutine collectives
end program verify
