"""How busy a calendar gets."""


def busiest(bookings: list[tuple[int, int]]) -> int:
    """The most bookings that run at once; one that ends when another starts is over by then."""
    most = 0
    for moment, _ in bookings:
        running = 0
        for start, end in bookings:
            if start <= moment < end:
                running += 1
        most = max(most, running)
    return most
