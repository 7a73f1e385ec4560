"""Taking a user out of the online store."""

from typing import TYPE_CHECKING

from features.store.lookup import entity_key
from features.store.repo import applied_digest, online_repo

if TYPE_CHECKING:
    from features.home import Home
    from features.worlds.schema import World


def forget_online(world: "World", home: "Home", user_id: int, *, delete: bool) -> int:
    """Count the stored values of a user, of all views that there are or were.

    Args:
        world: whose store.
        home: where it is.
        user_id: the user.
        delete: delete them.
    """
    from feast.infra.online_stores.helpers import get_online_store_from_config

    if applied_digest(home) is None:
        return 0
    config = online_repo(world, home)
    store = get_online_store_from_config(config.online_store)
    return int(store.forget(config, entity_key("user_id", user_id), delete=delete))
